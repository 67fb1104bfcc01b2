# Copyright 2026 The lvbert authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""The supernet: a model with one layer of every letter at every position (LV-BERT, section 3).

It is an ordinary model whose encoders are told at each forward pass which letter to take at each
position: `model(**batch, layer_order="dsf...")`. Discriminator and generator walk the same order.
An order of ELC-BERT also says where words end; the selection before the n-th word is shared by all
orders. The paper's own supernet is not published; ours is a Single-Path One-Shot one
(arXiv 1904.00420).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from torch import Tensor, nn
from transformers import PreTrainedModel

from ..configuration_elcbert import ELCBertConfig
from ..configuration_layer_order import LayerOrderConfig
from ..configuration_lvbert import LVBertConfig
from ..layer_order import LAYER_NAMES, join_letters, split_words
from ..modeling_elcbert import ELCBertForMaskedLM
from ..modeling_elcbert_layers import ELCBertWord, LayerSelection, build_layer
from ..modeling_lvbert import LVBertForMaskedLM
from ..modeling_lvbert_layers import LVBertLayer
from ..pretraining.electra import HALVES, ElectraConfig, ElectraForPreTraining

# A layer of an ordinary model: its word's number, for ELC-BERT, and its number.
_LETTER = re.compile(r"encoder\.(?:words\.(\d+)\.)?layers\.(\d+)\.")

# Called with an order and the encoder's output for it, (batch, seq, hidden).
Visitor = Callable[[str, Tensor], None]


def split_genes(layer_order: str, has_words: bool) -> list[str]:
    """Returns what an order chooses at each position: a letter, with a blank where a word ends.

    Args:
        layer_order: The order.
        has_words: Whether the ends of words count, as for ELC-BERT; the last has no blank.
    """
    if not has_words:
        return list(join_letters(layer_order))
    genes = [
        letter if place < len(word) - 1 else f"{letter} "
        for word in split_words(layer_order)
        for place, letter in enumerate(word)
    ]
    return [*genes[:-1], genes[-1].strip()]


class PathEncoder(nn.Module, ABC):
    """Layers of every letter at every position, walked along one order or a tree of them.

    A subclass says what a walk carries from one position to the next; its states are never changed
    in place, so that several orders can go on from one.
    """

    has_words = False

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.default_order: str = config.layer_order
        self.positions = nn.ModuleList(
            nn.ModuleDict(
                {letter: self.build_layer(config, letter, place) for letter in LAYER_NAMES}
            )
            for place in range(len(join_letters(config.layer_order)))
        )

    @abstractmethod
    def build_layer(self, config: Any, letter: str, place: int) -> nn.Module:
        """Returns a new layer."""

    def get_layer(self, place: int, gene: str) -> nn.Module:
        """Returns the layer that a gene chooses at a position."""
        return cast(nn.ModuleDict, self.positions[place])[gene[0]]

    @abstractmethod
    def begin(self, hidden_states: Tensor) -> Any:
        """Returns the state before the first position."""

    @abstractmethod
    def step(self, state: Any, place: int, gene: str, context: dict[str, Any]) -> Any:
        """Returns the state after a position."""

    @abstractmethod
    def end(self, state: Any) -> Tensor:
        """Returns the encoder's output, (batch, seq, hidden), from the state after the last."""

    def walk(
        self,
        hidden_states: Tensor,
        context: dict[str, Any],
        layer_order: str | None,
        orders: Iterable[str] | None,
        visit: Visitor | None,
    ) -> Tensor:
        """Returns the output of one order, or visits those of many and returns the last.

        Args:
            hidden_states: Embedding output, (batch, seq, hidden).
            context: Keyword arguments of every layer.
            layer_order: The order; the configuration's if None.
            orders: Orders to visit instead; what two of them begin with alike is computed once.
            visit: Gets each of them.

        Raises:
            ValueError: An order has another number of letters than the supernet.
        """
        if orders is None or visit is None:
            genes = self.split(layer_order or self.default_order)
            state = self.begin(hidden_states)
            for place, gene in enumerate(genes):
                state = self.step(state, place, gene, context)
            return self.end(state)
        output = hidden_states
        for order, state in self._walk_tree(self.begin(hidden_states), context, sorted(orders)):
            output = self.end(state)
            visit(order, output)
        return output

    def split(self, layer_order: str) -> list[str]:
        """Returns what an order chooses at each position, see `split_genes`.

        Raises:
            ValueError: The order has another number of letters than the supernet.
        """
        genes = split_genes(layer_order, self.has_words)
        if len(genes) != len(self.positions):
            raise ValueError(
                f"layer_order {layer_order!r} has {len(genes)} letters, the supernet has "
                f"{len(self.positions)} positions"
            )
        return genes

    def _walk_tree(
        self, start: Any, context: dict[str, Any], orders: list[str]
    ) -> Iterator[tuple[str, Any]]:
        """Yields each order with its last state; one state for each position is held."""
        path: list[str] = []
        states = [start]
        for order in orders:
            genes = self.split(order)
            num_shared = _count_shared(path, genes)
            del states[num_shared + 1 :]
            for place in range(num_shared, len(genes)):
                states.append(self.step(states[-1], place, genes[place], context))
            path = genes
            yield order, states[-1]


def _count_shared(first: list[str], second: list[str]) -> int:
    """Returns how many genes two orders begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), len(first))


class LVBertPathEncoder(PathEncoder):
    """The supernet's encoder of LV-BERT: a state is the hidden states."""

    def build_layer(self, config: LVBertConfig, letter: str, place: int) -> nn.Module:
        """Returns a new layer with its norm."""
        return LVBertLayer(config, letter)

    def begin(self, hidden_states: Tensor) -> Tensor:
        """Returns the hidden states."""
        return hidden_states

    def step(self, state: Tensor, place: int, gene: str, context: dict[str, Any]) -> Tensor:
        """Returns the layer's output, (batch, seq, hidden)."""
        return self.get_layer(place, gene)(state, **context)

    def end(self, state: Tensor) -> Tensor:
        """Returns the hidden states."""
        return state

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any,
        padding_mask: Tensor | None,
        layer_order: str | None = None,
        orders: Iterable[str] | None = None,
        visit: Visitor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Returns the output of an order, (batch, seq, hidden); see `walk`."""
        context = {"attention_mask": attention_mask, "padding_mask": padding_mask, **kwargs}
        return self.walk(hidden_states, context, layer_order, orders, visit)


# Outputs so far; input and sum of outputs of the word in work, None between two words.
WordState = tuple[tuple[Tensor, ...], Tensor | None, Tensor | None]


class ELCBertPathEncoder(PathEncoder):
    """The supernet's encoder of ELC-BERT: words may end anywhere.

    The supernet's own order has words of one letter, so that there is a selection before each.
    """

    has_words = True

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        self.word = ELCBertWord(config, "", 0)
        # What an ordinary encoder may have, and a supernet has not.
        self.output_selection = None
        self.layer_selections = None
        if config.variant != "ltg":
            self.layer_selections = nn.ModuleList(
                LayerSelection(number + 1) for number in range(len(self.positions))
            )

    def build_layer(self, config: ELCBertConfig, letter: str, place: int) -> nn.Module:
        """Returns a new layer, with initial values as of a word of its own."""
        return build_layer(config, letter, place)

    def begin(self, hidden_states: Tensor) -> WordState:
        """Returns the state before the first word."""
        return (hidden_states,), None, None

    def step(self, state: WordState, place: int, gene: str, context: dict[str, Any]) -> WordState:
        """Returns the state after a layer, and after its word where that ends."""
        states, selected, output = state
        layer = self.get_layer(place, gene)
        if selected is None or output is None:
            selected = states[-1]
            if self.layer_selections is not None:
                selected = self.layer_selections[len(states) - 1](list(states))
            output = layer(selected, **context)
        else:
            output = output + layer(self.word.read_stream(selected, output), **context)
        if len(gene) == 1:
            return states, selected, output
        return (*states, self.word.finish(selected, output)), None, None

    def end(self, state: WordState) -> Tensor:
        """Returns the last word's output, (batch, seq, hidden)."""
        states, selected, output = state
        if selected is None or output is None:
            return states[-1]
        return self.word.finish(selected, output)

    def forward(
        self,
        hidden_states: Tensor,
        relative_embeddings: Tensor | None,
        position_rows: Tensor | None,
        layer_order: str | None = None,
        orders: Iterable[str] | None = None,
        visit: Visitor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Returns the output of an order, (batch, seq, hidden); see `walk`."""
        positions = {"relative_embeddings": relative_embeddings, "position_rows": position_rows}
        return self.walk(hidden_states, {**positions, **kwargs}, layer_order, orders, visit)


def _widen(model: PreTrainedModel, encoder_class: type[PathEncoder]) -> None:
    """Gives a model the supernet's encoder, with initial values by the family's rules."""
    base: Any = model.base_model
    base.encoder = encoder_class(model.config)
    for module in base.encoder.modules():
        base._init_weights(module)


class LVBertSupernet(LVBertForMaskedLM):
    """A supernet of LV-BERT with the mask head."""

    # Its code stays here: a supernet is no model to publish.
    _auto_class = None

    def __init__(self, config: LVBertConfig) -> None:
        super().__init__(config)
        _widen(self, LVBertPathEncoder)


class ELCBertSupernet(ELCBertForMaskedLM):
    """A supernet of ELC-BERT with the mask head."""

    _auto_class = None
    supports_gradient_checkpointing = False

    def __init__(self, config: ELCBertConfig) -> None:
        super().__init__(config)
        _widen(self, ELCBertPathEncoder)


class ElectraSupernet(ElectraForPreTraining):
    """A supernet of LV-BERT with ELECTRA's objective: both halves are one."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        for name in HALVES:
            _widen(getattr(self, name), LVBertPathEncoder)


Supernet = LVBertSupernet | ELCBertSupernet | ElectraSupernet


def make_supernet_order(num_layers: int, model_family: str) -> str:
    """Returns the order that the supernet's configuration has: self-attention and feed-forward.

    Args:
        num_layers: Number of positions.
        model_family: "lvbert" or "elcbert", whose words have one letter each.

    Raises:
        ValueError: Fewer than one position.
    """
    if num_layers < 1:
        raise ValueError(f"num_layers {num_layers}: must be at least 1")
    letters = ("sf" * num_layers)[:num_layers]
    return " ".join(letters) if model_family == "elcbert" else letters


def build_supernet(config: LayerOrderConfig | ElectraConfig) -> Supernet:
    """Returns a new supernet with as many positions as the configuration's order has letters.

    Args:
        config: A model's configuration, or ELECTRA's of both halves.

    Raises:
        ValueError: The variant has no supernet, or an order of ELC-BERT has words of several
            letters.
    """
    if isinstance(config, ElectraConfig):
        return ElectraSupernet(config)
    if isinstance(config, LVBertConfig):
        return LVBertSupernet(config)
    if not isinstance(config, ELCBertConfig):
        raise ValueError(f"no supernet for {type(config).__name__}")
    if config.variant == "weighted_output":
        raise ValueError(
            "variant 'weighted_output' has no supernet: its last mix depends on the number of "
            "words; search with another and train the winner with it"
        )
    if config.num_hidden_layers != len(join_letters(config.layer_order)):
        raise ValueError(
            f"layer_order {config.layer_order!r}: a supernet's words have one letter each"
        )
    return ELCBertSupernet(config)


def find_encoder(supernet: Supernet) -> PathEncoder:
    """Returns the encoder, of ELECTRA's two the discriminator's."""
    model: Any = supernet.discriminator if isinstance(supernet, ElectraSupernet) else supernet
    return model.base_model.encoder


def extract(supernet: Supernet, layer_order: str) -> PreTrainedModel:
    """Returns the ordinary model of an order with the supernet's weights, not shared with it.

    Its outputs are those of the supernet's path to the last bit.

    Args:
        supernet: The supernet.
        layer_order: As many letters as it has positions; for ELC-BERT with words.

    Raises:
        ValueError: Another number of letters.
    """
    find_encoder(supernet).split(layer_order)
    model = _build_plain(supernet, layer_order)
    weights = supernet.state_dict()
    model.load_state_dict(
        {name: weights[_find_source(name, layer_order)] for name in model.state_dict()}
    )
    model.train(supernet.training)
    cast(nn.Module, model).to(supernet.device)
    return model


def _build_plain(supernet: Supernet, layer_order: str) -> PreTrainedModel:
    if isinstance(supernet, ElectraSupernet):
        fields = supernet.config.to_dict()
        for name in HALVES:
            key = f"{name}_fields"
            fields[key] = {**fields[key], "layer_order": layer_order}
        return ElectraForPreTraining(ElectraConfig(**fields))
    fields = {**supernet.config.to_dict(), "layer_order": layer_order}
    if isinstance(supernet, ELCBertSupernet):
        return ELCBertForMaskedLM(ELCBertConfig(**fields))
    return LVBertForMaskedLM(LVBertConfig(**fields))


def _find_source(name: str, layer_order: str) -> str:
    """Returns the supernet's name of a parameter of an order's model."""
    words = split_words(layer_order)
    if match := _LETTER.search(name):
        before = sum(len(word) for word in words[: int(match[1])]) if match[1] else 0
        place = before + int(match[2])
        letter = join_letters(layer_order)[place]
        return f"{name[: match.start()]}encoder.positions.{place}.{letter}.{name[match.end() :]}"
    return name

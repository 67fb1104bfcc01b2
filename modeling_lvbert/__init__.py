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
"""LV-BERT and ELC-BERT: encoders whose layers themselves were designed, for transformers.

Importing the package registers both families with transformers' Auto classes.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from .configuration_elcbert import ELCBertConfig
from .configuration_lvbert import LVBertConfig
from .modeling_elcbert import (
    ELCBertForMaskedLM,
    ELCBertForMultipleChoice,
    ELCBertForPreTraining,
    ELCBertForQuestionAnswering,
    ELCBertForSequenceClassification,
    ELCBertForTokenClassification,
    ELCBertModel,
)
from .modeling_lvbert import (
    LVBertForMaskedLM,
    LVBertForMultipleChoice,
    LVBertForPreTraining,
    LVBertForQuestionAnswering,
    LVBertForSequenceClassification,
    LVBertForTokenClassification,
    LVBertModel,
)

__version__ = "0.1.0"

AutoConfig.register("lvbert", LVBertConfig)
AutoConfig.register("elcbert", ELCBertConfig)
AutoModel.register(LVBertConfig, LVBertModel)
AutoModel.register(ELCBertConfig, ELCBertModel)
AutoModelForPreTraining.register(LVBertConfig, LVBertForPreTraining)
AutoModelForPreTraining.register(ELCBertConfig, ELCBertForPreTraining)
AutoModelForMaskedLM.register(LVBertConfig, LVBertForMaskedLM)
AutoModelForMaskedLM.register(ELCBertConfig, ELCBertForMaskedLM)
AutoModelForSequenceClassification.register(LVBertConfig, LVBertForSequenceClassification)
AutoModelForSequenceClassification.register(ELCBertConfig, ELCBertForSequenceClassification)
AutoModelForTokenClassification.register(LVBertConfig, LVBertForTokenClassification)
AutoModelForTokenClassification.register(ELCBertConfig, ELCBertForTokenClassification)
AutoModelForQuestionAnswering.register(LVBertConfig, LVBertForQuestionAnswering)
AutoModelForQuestionAnswering.register(ELCBertConfig, ELCBertForQuestionAnswering)
AutoModelForMultipleChoice.register(LVBertConfig, LVBertForMultipleChoice)
AutoModelForMultipleChoice.register(ELCBertConfig, ELCBertForMultipleChoice)

__all__ = [
    "ELCBertConfig",
    "ELCBertForMaskedLM",
    "ELCBertForMultipleChoice",
    "ELCBertForPreTraining",
    "ELCBertForQuestionAnswering",
    "ELCBertForSequenceClassification",
    "ELCBertForTokenClassification",
    "ELCBertModel",
    "LVBertConfig",
    "LVBertForMaskedLM",
    "LVBertForMultipleChoice",
    "LVBertForPreTraining",
    "LVBertForQuestionAnswering",
    "LVBertForSequenceClassification",
    "LVBertForTokenClassification",
    "LVBertModel",
]

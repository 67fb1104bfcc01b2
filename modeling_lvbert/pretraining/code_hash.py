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
"""A name for code, so that a cache does not outlive the code that filled it.

`datasets` names what it keeps by a function's arguments and by the function's name, not its body.
"""

import hashlib
import importlib
import inspect


def hash_code(*module_names: str) -> str:
    """Returns a SHA-256 of the sources of modules.

    Args:
        module_names: Full names, as in `__name__`.
    """
    digest = hashlib.sha256()
    for name in sorted(module_names):
        digest.update(inspect.getsource(importlib.import_module(name)).encode())
    return digest.hexdigest()

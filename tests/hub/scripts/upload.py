"""Uploads folders, without PyTorch: the argument is a list of {"repo", "folder", "tag"?, ...}."""

import json
import sys

from huggingface_hub import HfApi

api = HfApi()
told = []
for task in json.loads(sys.argv[1]):
    repo, tag = task["repo"], task.get("tag")
    api.create_repo(repo, exist_ok=True)
    told.append(api.upload_folder(repo_id=repo, folder_path=task["folder"]).oid)
    if tag is not None:
        api.create_tag(repo, tag=tag)
sys.stdout.write(f"\nRESULT {json.dumps(told)}\n")

"""Takes the command line of `vllm serve`, and serves: an answer to each request that names the model and has an image.

python serve_like_vllm.py FOLDER --served-model-name NAME --host HOST --port PORT [--answer TEXT] [--started FILE]
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--served-model-name", required=True)
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--answer", default="no")
parser.add_argument("--started", type=Path)
given = parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.reply(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kinds = [part["type"] for message in asked["messages"] for part in message["content"]]
        if self.path != "/v1/chat/completions" or asked["model"] != given.served_model_name:
            self.reply(404, {"error": f"no model {asked['model']}"})
        elif "image_url" not in kinds:
            self.reply(400, {"error": "no image"})
        else:
            message = {"message": {"content": given.answer}, "finish_reason": "stop"}
            self.reply(200, {"choices": [message], "usage": {"prompt_tokens": 9, "completion_tokens": 3}})

    def reply(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


assert (given.folder / "model.safetensors").is_file()
server = ThreadingHTTPServer((given.host, given.port), Handler)
if given.started:
    with given.started.open("a") as file:
        file.write(f"{given.served_model_name} {os.getpid()}\n")
server.serve_forever()

"""A server as OpenEnv's: sessions over WebSockets at /ws, and over HTTP as HOW says (`one`: one session, as older servers
have; `none`: an environment for each request, as newer ones). It counts up to 3 and prints its address.
"""

import base64
import hashlib
import http.server
import json
import struct
import sys
import uuid

HOW = sys.argv[1]


class Counter:
    def __init__(self):
        self.episode, self.at = str(uuid.uuid4()), 0

    def reset(self, data):
        self.episode, self.at = str(uuid.uuid4()), 0
        return self.answer(f"seed {data['seed']}, level {data.get('level')}", None)

    def step(self, action):
        if action["op"] == "bad":
            raise ValueError("bad op")
        self.at += action["op"] if isinstance(action["op"], int) else 1
        reward = {"null": None, "nan": float("nan"), "text": "1"}.get(action["op"], float(self.at == 3))
        return self.answer(f"did {action}", reward)

    def answer(self, said, reward):
        observation = {"said": said, "at": self.at, "legal": [1, 2]}
        return {"observation": observation, "reward": reward, "done": self.at >= 3}


shared = Counter()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def environment(self):
        return shared if HOW == "one" else Counter()

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        data = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/reset":
            return self.reply(self.environment().reset(data))
        return self.reply(self.environment().step(data["action"]))

    def do_GET(self):
        if self.path == "/state":
            environment = self.environment()
            return self.reply({"episode_id": environment.episode, "step_count": environment.at})
        if HOW == "no sessions":
            return self.send_error(403, "no sessions here")
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "Upgrade")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.wfile.flush()
        environment = Counter()
        while True:
            text = self.receive()
            if text is None:
                self.close_connection = True
                return
            message = json.loads(text)
            if message["type"] == "close":
                continue
            try:
                if message["data"].get("op") == "gone":
                    self.close_connection = True
                    return
                data = getattr(environment, message["type"])(message["data"])
                self.send_text(json.dumps({"type": "observation", "data": data}))
            except ValueError as error:
                self.send_text(json.dumps({"type": "error", "data": {"message": str(error), "code": "EXECUTION_ERROR"}}))

    def receive(self):
        """The next text of the client, whose frames are masked and in one piece."""
        start = self.rfile.read(2)
        if len(start) < 2 or start[0] & 15 == 8:
            return None
        size = start[1] & 127
        if size == 126:
            [size] = struct.unpack(">H", self.rfile.read(2))
        mask = self.rfile.read(4)
        return bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(size)))

    def send_text(self, text):
        body = text.encode()
        size = bytes([len(body)]) if len(body) < 126 else struct.pack(">BH", 126, len(body))
        self.wfile.write(b"\x81" + size + body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()

"""A server of the protocol, of the standard library alone, that misbehaves on demand.

server.py [HOW]: how it starts. What it does later is said by actions, and of a judge by prompts. `--http` as the last
argument serves over HTTP; HOW `chat` is then a model with chat completions.
"""

import json
import os
import signal
import subprocess
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
OUT = sys.stdout.buffer
seeds, steps, messages, largest, names = {}, {}, 0, 0, set()
raw = None


def turn(name):
    return {"observation": f"seed {seeds[name]}, step {steps[name]}", "state": f"{seeds[name]}.{steps[name]}"}


def hello(request):
    if HOW == "slow":
        time.sleep(0.6)
    if HOW == "silent":
        time.sleep(3600)
    if HOW == "dies":
        sys.stderr.write("no model file\n")
        sys.exit(7)
    if HOW == "refuses":
        return {"error": "no such game"}
    return {
        "protocol": 2 if HOW == "version" else 1,
        "instructions": f"pid {os.getpid()}" if HOW == "fickle" else f"Settings {json.dumps(request['settings'])}.",
        "states": True,
        "judges": HOW == "judge",
        "tasks": 9,
    }


def step(request):
    global raw
    name, action = request["id"], request["action"] or "None"
    steps[name] += 1
    answer = {"id": name, **turn(name), "reward": steps[name] / 4, "terminal": action == "end", "success": action == "end"}
    answer["feedback"] = f"{action}|{request['response']}"
    if action.startswith("quiet"):
        answer["feedback"] = "quiet"
    elif action == "die":
        sys.stderr.write("first line\nout of cheese\n")
        sys.exit(3)
    elif action == "hang":
        time.sleep(3600)
    elif action == "garbage":
        raw = b"Loading the model...\n"
    elif action == "megabytes":
        raw = b"x" * 3_000_000 + b"\n"
    elif action == "endless":
        while True:
            OUT.write(b"x" * 100_000)
    elif action == "binary":
        raw = b'{"message": 1, "answers": "\xff\xfe"}\n'
    elif action == "half a line":
        OUT.write(b'{"message": 1')
        OUT.flush()
        os._exit(0)
    elif action == "wrong id":
        answer["id"] = "somebody else"
    elif action == "wrong message":
        raw = b'{"message": 999999, "answers": [{}]}\n'
    elif action == "nan":
        answer["reward"] = float("nan")
    elif action == "too many":
        raw = ("too many", answer)
    elif action == "unasked":
        raw = ("unasked", answer)
    elif action == "no reward":
        del answer["reward"]
    elif action == "text reward":
        answer["reward"] = "1"
    elif action == "huge reward":
        answer["reward"] = 1e300
    elif action == "error":
        answer = {"id": name, "error": "KeyError: 'door'"}
    elif action == "chatter":
        for i in range(20_000):
            sys.stderr.write(f"debug {i} {'y' * 200}\n")
    elif action == "count":
        answer["feedback"] = f"{messages} {largest} {len(names)} {os.getpid()}"
    elif action == "nap":
        time.sleep(0.05)
    elif action == "grandchild":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        answer["feedback"] = f"{os.getpid()} {child.pid}"
    elif action == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdout.flush()
        time.sleep(3600)
    return answer


def judge(request):
    seeds[request["id"]], steps[request["id"]] = 0, 0
    shown = json.dumps([request["episode"], request["successful"]])
    answer = step({"id": request["id"], "action": request["prompt"], "response": shown})
    if request["prompt"] == "no text":
        return {"id": request["id"]}
    return answer if "error" in answer else {"id": answer["id"], "text": answer["feedback"]}


def answer(request):
    name = request.get("id")
    if request["op"] == "hello":
        return hello(request)
    names.add(name)
    if request["op"] == "judge":
        return judge(request)
    if request["op"] == "reset":
        seeds[name], steps[name] = request["seed"], 0
        return {"id": name, **turn(name), "task": {"text": f"task {seeds[name]}"}}
    if request["op"] == "close":
        names.discard(name)
        return {"id": name}
    return step(request)


def reply(line):
    global messages, largest, raw
    message = json.loads(line)
    messages += 1
    largest = max(largest, len(message["requests"]))
    raw = None
    answers = [answer(request) for request in message["requests"]]
    whole = json.dumps({"message": message["message"], "answers": answers}).encode() + b"\n"
    if isinstance(raw, bytes):
        return raw
    if raw is not None and raw[0] == "too many":
        return json.dumps({"message": message["message"], "answers": answers + [raw[1]]}).encode() + b"\n"
    if raw is not None:
        return whole + whole
    return whole


def chat(request, headers):
    """Status and body that answer a request for a chat completion."""
    prompt = request["messages"][0]["content"]
    steps[prompt] = steps.get(prompt, 0) + 1
    if prompt == "hang":
        time.sleep(3600)
    if prompt == "busy" or (prompt == "flaky" and steps[prompt] < 3):
        return 429, b"slower, please"
    if prompt == "garbage":
        return 200, b"<html>hello</html>"
    seen = {"prompt": prompt, "model": request["model"], "key": headers["authorization"], "temperature": request.get("temperature")}
    text = {"megabytes": "x" * 3_000_000, "silent": None}.get(prompt, json.dumps(seen))
    return 200, json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()


def over_http():
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            line = self.rfile.read(int(self.headers["content-length"]))
            if HOW == "broken":
                return self.send_error(503, "out of order")
            if HOW == "locked" and self.headers["authorization"] != "Bearer me":
                return self.send_error(401)
            status, body = chat(json.loads(line), self.headers) if HOW == "chat" else (200, reply(line))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    kind = http.server.ThreadingHTTPServer if HOW == "chat" else http.server.HTTPServer
    server = kind(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if sys.argv[-1] == "--http":
    over_http()
for line in sys.stdin:
    OUT.write(reply(line))
    OUT.flush()
if HOW == "lingers":
    time.sleep(3600)

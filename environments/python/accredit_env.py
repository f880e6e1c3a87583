"""Serves a Python environment to accredit, over stdin and stdout or over HTTP.

An environment is a class with `reset` and `step`:

    import accredit_env

    class Guess:
        instructions = "Guess a number from 0 to 9. Answer with the number."

        def reset(self, seed):
            self.number = seed % 10
            return {"observation": "Your guess?"}

        def step(self, action, response):
            solved = (action or "").strip() == str(self.number)
            return {"observation": "Your guess?", "reward": float(solved), "terminal": solved, "success": solved}

    if __name__ == "__main__":
        accredit_env.serve(Guess)

and a configuration that has `name = "process"` and `command = ["python3", "guess.py"]` plays it. The keys of `settings`
there are the arguments of the class. What `reset` and `step` may return is in PROTOCOL.md, without `id`. The class says
with attributes what it has beside observations: `states`, `expert` and `answers` are True where every turn or task
comes with it, `tasks` is how many tasks there are. An instance plays one episode after another; equal seeds start equal
episodes. `close`, where there is one, is called at the end.

A judge is a class with `judge` in place of `reset` and `step`, named in the table `[judge]` of a configuration:

    class Strict:
        def judge(self, prompt, episode, successful):
            return "" if episode["success"] else "It took too long."

It says in words what was good and bad about an episode. `prompt` is the question as text, as a language model is asked it;
`episode` and `successful` (None where there is none) are dicts, see PROTOCOL.md.

Environments that are here already: `python -m accredit_env gymnasium` (or textworld, scienceworld, alfworld), or of your
own: `python -m accredit_env FILE.py:CLASS`. `--http PORT` serves a server instead.
"""

import argparse
import glob
import http.server
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import threading
import time
import traceback

__version__ = "0.1.0"

PROTOCOL = 1
TURN = ("observation", "state", "actions", "expert")
RESET = TURN + ("task",)
STEP = TURN + ("reward", "terminal", "success", "valid_action", "feedback")


class Refusal(Exception):
    """What a request is refused for, in words that need no traceback."""


# ---- What environments return -------------------------------------------------------------------------------------------


def text(value, name):
    if not isinstance(value, str):
        raise Refusal(f"`{name}` must be a text, not {value!r}")
    # What is no Unicode, such as half of a surrogate pair, would not arrive.
    return value.encode("utf-8", "replace").decode("utf-8")


def texts(value, name, keys):
    unknown = set(value) - set(keys) if isinstance(value, dict) else {repr(value)}
    if unknown:
        raise Refusal(f"`{name}` must be an object of {', '.join(keys)}; there is {', '.join(sorted(map(str, unknown)))}")
    return {key: text(part, f"{name}.{key}") for key, part in value.items() if part is not None}


def flag(value, name):
    # A bool of NumPy is no bool.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise Refusal(f"`{name}` must be true or false, not {value!r}")
    return bool(value)


def number(value, name):
    try:
        # Texts would be taken for numbers by float().
        value = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise Refusal(f"`{name}` must be a finite number")
    return value


FIELDS = {
    "observation": text,
    "state": text,
    "feedback": text,
    "actions": lambda value, name: [text(action, f"{name}[{i}]") for i, action in enumerate(value)],
    "expert": lambda value, name: texts(value, name, ("think", "action")),
    "task": lambda value, name: texts(value, name, ("text", "answer")),
    "reward": number,
    "terminal": flag,
    "success": flag,
    "valid_action": flag,
}


def checked(answer, known, required):
    """The answer as JSON can hold it; a field that does not fit is refused with its name."""
    if not isinstance(answer, dict):
        raise Refusal(f"a dict with the keys {', '.join(known)} was expected, not {type(answer).__name__}")
    for key in answer:
        if key not in known:
            raise Refusal(f"there is no field `{key}`; there are: {', '.join(known)}")
    for key in required:
        if answer.get(key) is None:
            raise Refusal(f"`{key}` is missing")
    return {key: FIELDS[key](value, key) for key, value in answer.items() if value is not None}


# ---- The protocol -------------------------------------------------------------------------------------------------------


class Client:
    """A host: its settings and its environments."""

    def __init__(self, make, settings):
        self.make, self.settings = make, settings
        # The first one is made to be described, and plays later.
        self.spare = [make(**settings)]
        self.environments = {}
        self.used = time.monotonic()

    def one(self):
        return self.spare[0] if self.spare else next(iter(self.environments.values()))

    def describe(self):
        environment = self.one()
        if hasattr(environment, "judge"):
            return {"protocol": PROTOCOL, "instructions": "", "judges": True}
        answer = {"protocol": PROTOCOL, "instructions": text(environment.instructions, "instructions")}
        for name in ("states", "expert", "answers"):
            answer[name] = bool(getattr(environment, name, False))
        return {**answer, "tasks": getattr(environment, "tasks", None)}

    def reset(self, request):
        name = request["id"]
        if name not in self.environments:
            self.environments[name] = self.spare.pop() if self.spare else self.make(**self.settings)
        return checked(self.environments[name].reset(request["seed"]), RESET, ("observation",))

    def step(self, request):
        environment = self.environments.get(request["id"])
        if environment is None:
            raise Refusal(f"there is no environment `{request['id']}` here: `reset` comes before `step`")
        answer = environment.step(request.get("action"), request.get("response", ""))
        return checked(answer, STEP, ("observation", "reward", "terminal", "success"))

    def judge(self, request):
        judge = self.one()
        if not hasattr(judge, "judge"):
            raise Refusal("this is an environment and no judge")
        return {"text": text(judge.judge(request["prompt"], request["episode"], request.get("successful")), "text")}

    def close(self, request):
        environment = self.environments.pop(request["id"], None)
        # One is kept, so that there always is one to describe.
        if environment is not None and not self.spare:
            self.spare.append(environment)
        elif environment is not None:
            end(environment)
        return {}

    def end(self):
        for environment in self.spare + list(self.environments.values()):
            end(environment)


class Server:
    """Answers the messages of hosts."""

    def __init__(self, make, idle_seconds=None):
        self.make, self.idle_seconds = make, idle_seconds
        self.lock = threading.Lock()
        self.clients = {}
        # The longest line: of each client, and of all of them.
        self.limits, self.limit = {}, 16 << 20

    def hello(self, name, request):
        if request.get("protocol") != PROTOCOL:
            raise Refusal(f"this server speaks version {PROTOCOL} of the protocol, not {request.get('protocol')!r}")
        self.limits[name] = int(request.get("max_message_bytes") or 16 << 20)
        self.limit = max(self.limit, self.limits[name])
        if name not in self.clients:
            self.clients[name] = Client(self.make, request.get("settings") or {})
        return self.clients[name].describe()

    def answer(self, name, request):
        """The answer to one request; whatever goes wrong is an answer too."""
        try:
            operation = request.get("op")
            if operation == "hello":
                answer = self.hello(name, request)
            elif operation not in ("reset", "step", "close", "judge"):
                raise Refusal(f"there is no operation {operation!r}")
            elif name not in self.clients:
                raise Refusal("`hello` comes first")
            else:
                answer = getattr(self.clients[name], operation)(request)
        except Refusal as refusal:
            answer = {"error": str(refusal)}
        except Exception:
            answer = {"error": traceback.format_exc().strip()}
        if isinstance(request, dict) and isinstance(request.get("id"), str):
            answer["id"] = request["id"]
        return dump(answer)

    def lines(self, line):
        """The lines that answer a message: one, or several where one would be too long or too late."""
        try:
            message = json.loads(line)
            number, name, requests = message["message"], message["client"], list(message["requests"])
        except Exception as error:
            yield dump({"message": None, "error": f"this is no message: {type(error).__name__}: {error}"})
            return
        # One at a time: libraries of environments are seldom made for threads.
        with self.lock:
            self.forget_idle(name)
            parts, size, since = [], 0, time.monotonic()
            for request in requests:
                part = self.answer(name, request)
                limit = self.limits.get(name, self.limit)
                if len(part) + 64 > limit:
                    what = f"the answer has {len(part)} bytes, and a line may have {limit}"
                    part = dump({"id": request.get("id"), "error": what})
                if parts and size + len(part) + 64 > limit:
                    yield joined(number, parts)
                    parts, size, since = [], 0, time.monotonic()
                parts.append(part)
                size += len(part) + 1
                if time.monotonic() - since > 0.25:
                    yield joined(number, parts)
                    parts, size, since = [], 0, time.monotonic()
            if parts:
                yield joined(number, parts)

    def forget_idle(self, name):
        """Hosts that died close nothing."""
        now = time.monotonic()
        if name in self.clients:
            self.clients[name].used = now
        if self.idle_seconds is not None:
            for idle in [name for name, client in self.clients.items() if client.used < now - self.idle_seconds]:
                self.clients.pop(idle).end()
                self.limits.pop(idle)

    def end(self):
        for client in self.clients.values():
            client.end()


def end(environment):
    if hasattr(environment, "close"):
        try:
            environment.close()
        except Exception:
            traceback.print_exc()


def dump(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def joined(number, parts):
    return b'{"message":%d,"answers":[%s]}' % (number, b",".join(parts))


def private_stdout():
    """The stdout that the protocol has alone: from here on, what libraries print goes to stderr."""
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "wb", buffering=1 << 16)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return out


def serve(make, idle_seconds=3600.0, http_port=None, host="127.0.0.1"):
    """Serves the environments that `make(**settings)` makes: on stdin and stdout, or on a port (0 takes a free one)."""
    out = private_stdout()
    if http_port is not None:
        return serve_http(Server(make, idle_seconds), host, http_port, out)
    server, source = Server(make), os.fdopen(os.dup(0), "rb", buffering=1 << 16)
    # What a library reads from stdin is not for it.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    try:
        for line in source:
            for answer in server.lines(line):
                out.write(answer + b"\n")
                out.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    server.end()


def serve_http(server, host, port, out):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            length = self.headers.get("content-length", "")
            if not length.isdigit() or int(length) > server.limit:
                self.close_connection = True
                return self.send_error(413, f"a message has a length of at most {server.limit} bytes")
            body = b"".join(line + b"\n" for line in server.lines(self.rfile.read(int(length))))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Listener(http.server.ThreadingHTTPServer):
        daemon_threads = True
        # Connections that wait: a host may have many workers.
        request_queue_size = 128

    with Listener((host, port), Handler) as listener:
        out.write(b"listening on http://%s:%d\n" % (host.encode(), listener.server_address[1]))
        out.flush()
        try:
            listener.serve_forever()
        except KeyboardInterrupt:
            pass
        server.end()


# ---- Environments of other libraries ------------------------------------------------------------------------------------


class Gymnasium:
    """An environment of Gymnasium with a finite set of actions.

    id: its name. actions: the names of its actions, in order. arguments: for `gymnasium.make`. show: `render` for the
    text of the render mode "ansi", `observation` for the observation itself. success_reward: an episode that ends with
    at least this reward is a success.
    """

    def __init__(self, id, actions, arguments=None, show="render", instructions="", success_reward=1.0):
        import gymnasium

        arguments = dict(arguments or {})
        if show == "render":
            arguments.setdefault("render_mode", "ansi")
        self.env = gymnasium.make(id, **arguments)
        space = self.env.action_space
        if getattr(space, "n", None) != len(actions):
            raise Refusal(f"{id} has the actions {space}, and `actions` has {len(actions)} names")
        self.numbers = {name.lower(): i + int(getattr(space, "start", 0)) for i, name in enumerate(actions)}
        self.actions, self.show, self.success_reward = list(actions), show, success_reward
        # One number that says where one is in a finite world is its whole state.
        self.states = isinstance(self.env.observation_space, gymnasium.spaces.Discrete)
        self.instructions = instructions or f"You play {id}. Actions: {', '.join(actions)}. Answer with one action."

    def turn(self, observation, over=False):
        shown = self.env.render() if self.show == "render" else observation
        turn = {"observation": str(shown), "actions": [] if over else self.actions}
        if self.states:
            turn["state"] = str(observation)
        return turn

    def reset(self, seed):
        # NumPy's streams take seeds of any size, but spaces of Gymnasium want 32 bits.
        observation, _ = self.env.reset(seed=seed % 2**32)
        self.last = self.turn(observation)
        return self.last

    def step(self, action, response):
        number = self.numbers.get((action or "").strip().lower())
        if number is None:
            answer = {"reward": 0.0, "terminal": False, "success": False, "valid_action": False}
            answer["feedback"] = f"Not a valid action: the actions are {', '.join(self.actions)}."
            return {**self.last, **answer}
        observation, reward, terminated, truncated, _ = self.env.step(number)
        over = bool(terminated or truncated)
        self.last = self.turn(observation, over)
        return {**self.last, "reward": reward, "terminal": over, "success": over and reward >= self.success_reward}

    def close(self):
        self.env.close()


def command(action):
    """What an engine is given: the printable ASCII of an action. Some hang or break on control characters and long lines."""
    cleaned = "".join(c if c.isascii() and c.isprintable() else " " for c in (action or "")[:1000])
    return cleaned[:200].strip()


class Games:
    """A list of game files, one task each: a seed is the number of one, counted round and round."""

    def __init__(self, games, max_steps):
        games = [games] if isinstance(games, str) else games
        self.games = sorted(path for pattern in games for path in glob.glob(pattern, recursive=True))
        if not self.games:
            raise Refusal(f"no file fits `games` = {games!r}")
        self.tasks, self.max_steps = len(self.games), max_steps

    def game(self, seed):
        self.steps, self.score = 0, 0.0
        return self.games[seed % len(self.games)]

    def outcome(self, turn, score, done, won):
        self.steps += 1
        reward, self.score = score - self.score, score
        over = bool(done) or bool(self.max_steps and self.steps >= self.max_steps)
        turn = {**turn, "actions": []} if over else turn
        return {**turn, "reward": float(reward), "terminal": over, "success": bool(won)}


class TextWorld(Games):
    """Games of TextWorld, as `tw-make` writes them.

    games: paths, or patterns of paths. max_steps: an episode ends after so many commands; 0 is without end.
    """

    instructions = "You play a text adventure. Answer with one command."
    states = True

    def __init__(self, games, max_steps=0):
        import textworld
        import textworld.gym

        super().__init__(games, max_steps)
        self.expert = all(os.path.exists(os.path.splitext(game)[0] + ".json") for game in self.games)
        infos = textworld.EnvInfos(
            admissible_commands=True, won=True, lost=True, facts=True, objective=True, policy_commands=self.expert
        )
        self.gym, self.infos, self.env, self.path = textworld.gym, infos, None, None

    def turn(self, observation, infos):
        self.valid = sorted(infos["admissible_commands"])
        state = "; ".join(sorted(map(str, infos["facts"])))
        turn = {"observation": observation.strip(), "state": state, "actions": self.valid}
        if self.expert:
            following = infos["policy_commands"] or ["look"]
            turn["expert"] = {"think": f"Next on the way to the goal: {following[0]}", "action": following[0]}
        return turn

    def reset(self, seed):
        path = self.game(seed)
        if path != self.path:
            self.close()
            self.env = self.gym.make(self.gym.register_game(path, request_infos=self.infos))
            self.path = path
        observation, infos = self.env.reset()
        return {**self.turn(observation, infos), "task": {"text": infos["objective"] or ""}}

    def step(self, action, response):
        text = command(action)
        valid = text in self.valid
        observation, score, done, infos = self.env.step(text or "look")
        return {**self.outcome(self.turn(observation, infos), float(score), done, infos["won"]), "valid_action": valid}

    def close(self):
        if self.env is not None:
            self.env.close()


class ScienceWorld:
    """Tasks of ScienceWorld, which needs Java.

    task: its name, such as `boil`. split: `train`, `dev` or `test` variations. simplification: its name for them.
    """

    instructions = "You are in a house with a laboratory. Answer with one command."

    def __init__(self, task="boil", split="train", simplification="easy", max_steps=100):
        from scienceworld import ScienceWorldEnv

        self.env = ScienceWorldEnv("", envStepLimit=max_steps)
        self.task, self.simplification = task, simplification
        self.env.load(task, 0, simplification)
        self.variations = list(getattr(self.env, f"get_variations_{split}")())
        self.tasks = len(self.variations)

    def reset(self, seed):
        self.env.load(self.task, self.variations[seed % self.tasks], self.simplification)
        observation, infos = self.env.reset()
        self.valid = set(infos["valid"])
        return {"observation": observation, "actions": sorted(self.valid), "task": {"text": infos["taskDesc"]}}

    def step(self, action, response):
        text = command(action)
        valid = text in self.valid
        observation, reward, done, infos = self.env.step(text or "look around")
        self.valid = set(infos["valid"])
        answer = {"observation": observation, "actions": [] if done else sorted(self.valid), "valid_action": valid}
        return {**answer, "reward": reward / 100.0, "terminal": bool(done), "success": infos["score"] >= 100}

    def close(self):
        self.env.close()


class Alfworld(Games):
    """Games of the original ALFWorld: files of the name game.tw-pddl.

    games: paths, or patterns of paths such as `json_2.1.1/train/**/game.tw-pddl`. max_steps: as for TextWorld.
    """

    instructions = "You are in a household. Do the task. Answer with one command."

    def __init__(self, games, max_steps=0):
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
        from textworld.envs import PddlEnv

        super().__init__(games, max_steps)
        infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
        self.env, self.path = AlfredInfos(AlfredDemangler(PddlEnv(infos), shuffle=False)), None

    def reset(self, seed):
        path = self.game(seed)
        if path != self.path:
            self.env.load(path)
            self.path = path
        state = self.env.reset()
        self.valid = state["admissible_commands"]
        _, _, task = state.feedback.partition("Your task is to: ")
        return {"observation": state.feedback.strip(), "actions": self.valid, "task": {"text": task.strip()}}

    def step(self, action, response):
        text = command(action)
        valid = text in self.valid
        state, score, done = self.env.step(text or "look")
        self.valid = state["admissible_commands"]
        turn = {"observation": state.feedback.strip(), "actions": self.valid}
        return {**self.outcome(turn, float(score), done, state["won"]), "valid_action": valid}

    def close(self):
        self.env.close()


ADAPTERS = {"gymnasium": Gymnasium, "textworld": TextWorld, "scienceworld": ScienceWorld, "alfworld": Alfworld}


class Count:
    """What the self-test plays: counting up to `goal`."""

    states = answers = expert = True
    tasks = 5

    def __init__(self, goal=3):
        self.goal = goal
        self.instructions = f"Answer with the next number, up to {goal}."

    def turn(self):
        following = str(self.at + 1)
        return {
            "observation": f"At {self.at}.",
            "state": str(self.at),
            "actions": [following],
            "expert": {"think": f"After {self.at} comes {following}.", "action": following},
        }

    def reset(self, seed):
        self.at = -(seed % self.tasks)
        return {**self.turn(), "task": {"text": "Count.", "answer": str(self.goal)}}

    def step(self, action, response):
        print("what an environment prints is not in the way")
        if action == "raise":
            raise RuntimeError("on demand")
        valid = (action or "").strip() == str(self.at + 1)
        self.at += valid
        over = self.at == self.goal
        return {**self.turn(), "reward": math.nan if action == "nan" else float(over), "terminal": over, "success": over,
                "valid_action": valid}


# ---- The command line ---------------------------------------------------------------------------------------------------


def find(name):
    """The class of a name: one of here, `module:CLASS` or `FILE.py:CLASS`."""
    if name in ADAPTERS:
        return ADAPTERS[name]
    place, _, attribute = name.rpartition(":")
    if not place:
        raise SystemExit(f"there is no environment `{name}`; there are: {', '.join(ADAPTERS)}, or FILE.py:CLASS")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(place))[0], place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    return getattr(module, attribute)


def selftest():
    """Plays with a server of itself over both ways."""
    import urllib.request

    def play(send):
        def ask(*requests):
            answers = send({"message": 7, "client": "me", "requests": list(requests)})
            assert all(line["message"] == 7 for line in answers), answers
            return [answer for line in answers for answer in line["answers"]]

        [hello] = ask({"op": "hello", "protocol": 1, "settings": {"goal": 2}})
        assert hello["instructions"] == "Answer with the next number, up to 2." and hello["tasks"] == 5, hello
        assert "version 1" in ask({"op": "hello", "protocol": 2})[0]["error"]
        starts = ask({"op": "reset", "id": "a", "seed": 0}, {"op": "reset", "id": "b", "seed": 6})
        assert [start["state"] for start in starts] == ["0", "-1"], starts
        assert [start["id"] for start in starts] == ["a", "b"], starts
        played = ask(*({"op": "step", "id": name, "action": "1", "response": ""} for name in "abc"))
        assert played[0]["valid_action"] and not played[1]["valid_action"], played
        assert "no environment `c`" in played[2]["error"], played
        assert "`reward` must be a finite number" in ask({"op": "step", "id": "a", "action": "nan"})[0]["error"]
        assert "RuntimeError: on demand" in ask({"op": "step", "id": "a", "action": "raise"})[0]["error"]
        [last] = ask({"op": "step", "id": "a", "action": "2", "response": ""})
        assert last["terminal"] and last["success"] and last["reward"] == 1.0, last
        assert ask({"op": "close", "id": "a"})[0] == {"id": "a"}
        assert "no environment `a`" in ask({"op": "step", "id": "a", "action": "1"})[0]["error"]
        assert send({"message": 8, "client": "you", "requests": [{"op": "close", "id": "a"}]})[0]["answers"][0]["error"]
        assert "no operation" in ask({"op": "dance"})[0]["error"]
        assert "no judge" in ask({"op": "judge", "prompt": "", "episode": {}})[0]["error"]

    def start(*more):
        command = [sys.executable, os.path.abspath(__file__), os.path.abspath(__file__) + ":Count", *more]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    with start() as child:
        def over_stdio(message):
            child.stdin.write(dump(message) + b"\n")
            child.stdin.flush()
            return [json.loads(child.stdout.readline())]

        play(over_stdio)
        child.stdin.close()
        assert child.wait(timeout=30) == 0
    with start("--http", "0") as child:
        url = child.stdout.readline().decode().split()[-1]

        def over_http(message):
            with urllib.request.urlopen(url, dump(message), timeout=30) as answer:
                return [json.loads(line) for line in answer.read().splitlines()]

        play(over_http)
        child.terminate()
    print("accredit_env: the self-test passed over stdio and over HTTP")


def main():
    parser = argparse.ArgumentParser(prog="accredit_env", description="Serves a Python environment to accredit.")
    parser.add_argument("environment", nargs="?", help=f"{', '.join(ADAPTERS)}, module:CLASS or FILE.py:CLASS")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve over HTTP; 0 takes a free port")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--idle", type=float, default=3600.0, metavar="SECONDS",
                        help="over HTTP, forget environments that were not used for so long")
    parser.add_argument("--selftest", action="store_true", help="check this file on this machine")
    arguments = parser.parse_args()
    if arguments.selftest:
        return selftest()
    if arguments.environment is None:
        parser.error("which environment is to be served?")
    serve(find(arguments.environment), arguments.idle, arguments.http, arguments.host)


if __name__ == "__main__":
    main()

"""The least that a server can do: it echoes. For measuring what the messages cost."""

import json
import sys

out = sys.stdout
for line in sys.stdin:
    message = json.loads(line)
    answers = []
    for request in message["requests"]:
        if request["op"] == "hello":
            answers.append({"protocol": 1, "instructions": "echo"})
        elif request["op"] == "reset":
            answers.append({"id": request["id"], "observation": "start"})
        elif request["op"] == "step":
            answers.append({"id": request["id"], "observation": request["action"], "reward": 0.0, "terminal": False,
                            "success": False})
        else:
            answers.append({"id": request["id"]})
    out.write(json.dumps({"message": message["message"], "answers": answers}) + "\n")
    out.flush()

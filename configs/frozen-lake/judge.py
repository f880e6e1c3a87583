"""A judge of FrozenLake by rules, where a language model would be asked: which steps led nowhere, and how it ended."""


class Rules:
    def judge(self, prompt, episode, successful):
        steps, said = episode["steps"], []
        for number, step in enumerate(steps, 1):
            if not step["valid_action"]:
                said.append(f"Step {number} holds no action that can be executed.")
            elif number < len(steps) and steps[number]["observation"] == step["observation"]:
                said.append(f"Step {number}, {step['action']}, changed nothing.")
        said.append("The goal was reached." if episode["success"] else "The goal was not reached.")
        if successful is not None:
            said.append("What reached it: " + ", ".join(step["action"] or "?" for step in successful["steps"]) + ".")
        return " ".join(said)

//! What the policy reads: observations as user turns, and the tokens that stand before each response.

use accredit_environments::Turn;

use crate::config::{Context, Parameters, Prompt, Rollout, StateKey};

use super::{
    chat::{ChatError, ChatTemplate, Conversation},
    kinds::Tags,
    tokenizer::{Tokenizer, TokenizerError},
};

/// Makes prompts, by the configuration's rules.
#[derive(Debug)]
pub struct Prompter {
    /// The tags of a response.
    pub tags: Tags,
    system: Option<String>,
    chat_template_kwargs: Parameters,
    instructions: String,
    preset: Prompt,
    state_key: StateKey,
    context: Context,
    window: usize,
    max_steps: usize,
    max_tokens: usize,
}

/// An earlier turn, as a window shows it.
#[derive(Clone, Debug)]
pub struct Past {
    /// What was observed.
    pub observation: String,
    /// What was done; none where the response held no action.
    pub action: Option<String>,
    /// The reward of it.
    pub reward: f32,
}

impl Prompter {
    /// A prompter for a chat template and an environment with these instructions.
    pub fn new(config: &Rollout, chat: &ChatTemplate, instructions: &str) -> Result<Self, ChatError> {
        let tags = Tags::new(&config.think_tag, &config.action_tag);
        let system = config.system.clone().or_else(|| match config.prompt {
            Prompt::Bare | Prompt::VerlAgent => None,
            Prompt::Ragen => Some(format!(
                "You solve a task step by step.\n{instructions}\nAnswer every turn in this form and with nothing else: {}",
                tags.response("your reasoning", "your action")
            )),
        });
        chat.check(system.is_some(), &config.chat_template_kwargs, config.context == Context::Concat)?;
        Ok(Self {
            tags,
            system,
            chat_template_kwargs: config.chat_template_kwargs.clone(),
            instructions: instructions.to_owned(),
            preset: config.prompt,
            state_key: config.state_key,
            context: config.context,
            window: config.window,
            max_steps: config.max_steps,
            max_tokens: config.max_tokens,
        })
    }

    /// The key of a turn's state, as the configuration wants it.
    pub fn state(&self, turn: &Turn) -> Option<String> {
        match self.state_key {
            StateKey::State => turn.state.clone(),
            StateKey::Observation => Some(turn.observation.clone()),
        }
    }

    /// The user turn of a step of this task, as text. `past` holds the episode so far.
    pub fn user_turn(&self, task: &str, past: &[Past], turn: &Turn) -> String {
        self.user_turn_without(0, task, past, turn)
    }

    /// As [`Prompter::user_turn`], without the oldest so many of the turns that its window shows.
    pub fn user_turn_without(&self, dropped: usize, task: &str, past: &[Past], turn: &Turn) -> String {
        let shown = &past[past.len() - self.shown(past).saturating_sub(dropped)..];
        let (step, observation) = (past.len(), turn.observation.as_str());
        match (self.preset, self.context) {
            (Prompt::Bare, Context::Concat) => observation.to_owned(),
            (Prompt::Bare, Context::Window) => {
                let mut text = history(shown, step);
                text.push_str(observation);
                text
            }
            (Prompt::VerlAgent, _) => self.whole_turn(task, shown, step, turn),
            (Prompt::Ragen, context) => {
                let mut text = String::new();
                match (context, past.last()) {
                    (Context::Concat, Some(last)) => text.push_str(&format!("Reward:\n{}\n\n", last.reward)),
                    (Context::Window, _) => text.push_str(&history(shown, step)),
                    (Context::Concat, None) => {}
                }
                text.push_str(&format!(
                    "Turn {}:\nState:\n{observation}\nActions left: {}. Form: {}. At most {} tokens.",
                    step + 1,
                    self.max_steps.saturating_sub(step),
                    self.tags.response("...", "..."),
                    self.max_tokens
                ));
                text
            }
        }
    }

    /// A prompt that needs no other one beside it: that of step `step`, from 0, with the turns `shown`, the last ones.
    fn whole_turn(&self, task: &str, shown: &[Past], step: usize, turn: &Turn) -> String {
        let mut text = format!("{}\n", self.instructions);
        if !task.is_empty() {
            text.push_str(&format!("Your task: {task}\n"));
        }
        if !shown.is_empty() {
            let first = step - shown.len();
            let pairs = shown.iter().zip(first + 1..).map(|(turn, n)| {
                let action = turn.action.as_deref().unwrap_or_default();
                format!("[Observation {n}: '{}', Action {n}: '{action}']", turn.observation)
            });
            let pairs = pairs.collect::<Vec<_>>().join("\n");
            text.push_str(&format!("Steps taken: {step}. The last {} of them:\n{pairs}\n", shown.len()));
        }
        text.push_str(&format!("Now, at step {}, you observe:\n{}\n", step + 1, turn.observation));
        if !turn.actions.is_empty() {
            let actions = turn.actions.iter().map(|action| format!("'{action}'"));
            text.push_str(&format!("Actions that would be executed:\n{}\n", actions.collect::<Vec<_>>().join(",\n")));
        }
        let form = self.tags.response("your reasoning", "one action");
        text.push_str(&format!("Reason about the situation first, then act. Answer in this form: {form}"));
        text
    }

    /// How many of the past turns a window shows.
    pub fn shown(&self, past: &[Past]) -> usize {
        past.len().min(self.window)
    }

    /// Ids that stand before a response: the whole prompt at the first step and in a window; else what comes after the
    /// last of so many responses, which `ended` is the stop token of, if it had one.
    pub fn context(
        &self,
        tokenizer: &Tokenizer,
        user: &str,
        responses: usize,
        ended: Option<u32>,
    ) -> Result<Vec<u32>, TokenizerError> {
        let conversation = Conversation {
            system: self.system.as_deref(),
            user,
            kwargs: &self.chat_template_kwargs,
            specials: tokenizer.specials(),
        };
        let pieces = if responses > 0 && self.context == Context::Concat {
            let ended = ended.map(|id| String::from_utf8_lossy(tokenizer.bytes(id)));
            tokenizer.chat.next(conversation, responses, ended.as_deref())?
        } else {
            tokenizer.chat.prompt(conversation)?
        };
        tokenizer.encode_pieces(&pieces)
    }

    /// Whether each step is a row of its own.
    pub fn step_rows(&self) -> bool {
        self.context == Context::Window
    }
}

/// The turns `shown`, the last ones before step `step`, from 0.
fn history(shown: &[Past], step: usize) -> String {
    let first = step - shown.len();
    let lines = shown.iter().enumerate().map(|(i, turn)| {
        let action = turn.action.as_deref().unwrap_or("(none)");
        format!("Observation {n}:\n{}\nAction {n}: {action}\n", turn.observation, n = first + i + 1)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::chat::{CHAT_TEMPLATE_FILE, CHATML};

    fn prompter(config: &Rollout) -> (tempfile::TempDir, Tokenizer, Prompter) {
        let folder = tempfile::tempdir().unwrap();
        let tags = Tags::new("think", "answer").all();
        let tokenizer = Tokenizer::create(folder.path(), &["go Down".to_owned()], &tags, 300).unwrap();
        let prompter = Prompter::new(config, &tokenizer.chat, "Reach G.").unwrap();
        (folder, tokenizer, prompter)
    }

    fn text(tokenizer: &Tokenizer, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes(*id)).copied().collect();
        String::from_utf8(bytes).unwrap()
    }

    fn turn(observation: &str) -> Turn {
        Turn { observation: observation.to_owned(), ..Turn::default() }
    }

    fn past() -> Vec<Past> {
        let turn = |observation: &str, action: Option<&str>| Past {
            observation: observation.to_owned(),
            action: action.map(str::to_owned),
            reward: -0.5,
        };
        vec![turn("P_G", Some("Right")), turn("_PG", None)]
    }

    #[test]
    fn a_whole_turn_shows_task_window_actions_and_form() {
        let config = Rollout {
            prompt: Prompt::VerlAgent,
            context: Context::Window,
            window: 1,
            action_tag: "action".to_owned(),
            state_key: StateKey::Observation,
            ..Rollout::default()
        };
        let (_folder, _, prompter) = prompter(&config);
        let turn = Turn { actions: vec!["Left".to_owned(), "Up".to_owned()], ..turn("__P") };
        let form = "Reason about the situation first, then act. Answer in this form: <think>your \
                    reasoning</think><action>one action</action>";
        assert_eq!(
            prompter.user_turn("walk", &past(), &turn),
            format!(
                "Reach G.\nYour task: walk\nSteps taken: 2. The last 1 of them:\n[Observation 2: '_PG', Action 2: '']\n\
                 Now, at step 3, you observe:\n__P\nActions that would be executed:\n'Left',\n'Up'\n{form}"
            )
        );
        let first = prompter.user_turn("", &[], &self::turn("__P"));
        assert_eq!(first, format!("Reach G.\nNow, at step 1, you observe:\n__P\n{form}"));
        assert_eq!(prompter.state(&turn).as_deref(), Some("__P"));
    }

    #[test]
    fn a_conversation_grows_by_the_environment_s_turns_alone() {
        let config = Rollout { prompt: Prompt::Bare, ..Rollout::default() };
        let (_folder, tokenizer, prompter) = prompter(&config);
        let first = prompter.context(&tokenizer, &prompter.user_turn("", &[], &turn("P_G")), 0, None).unwrap();
        assert_eq!(text(&tokenizer, &first), "<|im_start|>user\nP_G<|im_end|>\n<|im_start|>assistant\n");
        let end = tokenizer.stop()[0];
        let next = prompter.context(&tokenizer, "_PG", 1, Some(end)).unwrap();
        assert_eq!(text(&tokenizer, &next), "\n<|im_start|>user\n_PG<|im_end|>\n<|im_start|>assistant\n");
        // A response that was cut has no end of turn; the host adds one, as a token of the environment.
        let after_cut = prompter.context(&tokenizer, "_PG", 1, None).unwrap();
        assert_eq!(after_cut[0], end);
    }

    #[test]
    fn the_template_s_settings_reach_it_in_every_turn_or_are_refused() {
        let kwargs = Parameters::from_iter([("enable_thinking".to_owned(), false.into())]);
        let config = Rollout { prompt: Prompt::Bare, chat_template_kwargs: kwargs, ..Rollout::default() };
        let (folder, tokenizer, _) = prompter(&Rollout::default());
        let refused = Prompter::new(&config, &tokenizer.chat, "").unwrap_err().to_string();
        assert!(refused.starts_with("`rollout.chat_template_kwargs.enable_thinking`: the chat template"), "{refused}");
        let thinking = "{% if enable_thinking is false %}<think></think>{% endif %}";
        std::fs::write(folder.path().join(CHAT_TEMPLATE_FILE), format!("{CHATML}{thinking}")).unwrap();
        let tokenizer = Tokenizer::load(folder.path(), 1 << 20).unwrap();
        let prompter = Prompter::new(&config, &tokenizer.chat, "").unwrap();
        for responses in [0, 1] {
            let ids = prompter.context(&tokenizer, "P_G", responses, None).unwrap();
            let text = text(&tokenizer, &ids);
            assert!(text.ends_with("P_G<|im_end|>\n<|im_start|>assistant\n<think></think>"), "{text}");
        }
    }

    #[test]
    fn a_window_shows_the_last_turns() {
        let config = Rollout { prompt: Prompt::Bare, context: Context::Window, window: 1, ..Rollout::default() };
        let (_folder, tokenizer, prompter) = prompter(&config);
        let user = prompter.user_turn("", &past(), &turn("__P"));
        assert_eq!(user, "Observation 2:\n_PG\nAction 2: (none)\n__P");
        let ids = prompter.context(&tokenizer, &user, 2, Some(tokenizer.stop()[0])).unwrap();
        assert!(text(&tokenizer, &ids).starts_with("<|im_start|>user\nObservation 2"));
        assert_eq!(prompter.user_turn_without(1, "", &past(), &turn("__P")), "__P");
    }

    #[test]
    fn the_full_prompt_says_the_rules_the_turn_and_the_last_reward() {
        let (_folder, tokenizer, prompter) = prompter(&Rollout::default());
        let first = prompter.context(&tokenizer, &prompter.user_turn("", &[], &turn("P_G")), 0, None).unwrap();
        let first = text(&tokenizer, &first);
        assert!(first.contains("<|im_start|>system\n") && first.contains("Reach G."), "{first}");
        let user = prompter.user_turn("", &past(), &turn("__P"));
        assert!(user.starts_with("Reward:\n-0.5\n\nTurn 3:\nState:\n__P\nActions left: 8."), "{user}");
    }
}

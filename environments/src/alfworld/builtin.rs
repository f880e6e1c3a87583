//! The wording of houses that are made here: that of the data sets since version 2.1.2.

use std::sync::{Arc, LazyLock};

use super::grammar;
use super::wording::Wording;

/// Commands by action.
const COMMANDS: [(&str, &str); 15] = [
    ("look", "look"),
    ("inventory", "inventory"),
    ("help", "help"),
    ("GotoLocation", "go to {r}"),
    ("examineReceptacle", "examine {r}"),
    ("examineObject", "examine {o}"),
    ("OpenObject", "open {r}"),
    ("CloseObject", "close {r}"),
    ("PickupObject", "take {o} from {r}"),
    ("PutObject", "move {o} to {r}"),
    ("CleanObject", "clean {o} with {r}"),
    ("HeatObject", "heat {o} with {r}"),
    ("CoolObject", "cool {o} with {r}"),
    ("SliceObject", "slice {o} with {ko}"),
    ("ToggleObject", "use {o}"),
];

/// The answers, by action, and what they are made of: alternatives with their conditions.
const ANSWERS: [(&str, &[(&str, &str)]); 17] = [
    ("intro", &[("", "-= Welcome to TextWorld, ALFRED! =-\n\n#look#\n\n#task#")]),
    (
        "look",
        &[
            (
                "atlocation(a, l) & receptacleatlocation(r, l)",
                "You are facing the [r.name | atlocation(a, l) & receptacleatlocation(r, l)]. Next to it, you see #floor#.",
            ),
            (
                "",
                "You are in the middle of a room. Looking quickly around you, you see [r.indefinite r.name | \
                 receptacleatlocation(r, l)].",
            ),
        ],
    ),
    (
        "floor",
        &[(
            "",
            "[o.indefinite o.name | atlocation(a, l) & objectatlocation(o, l) & receptacleatlocation(r, l) & \
             not_inreceptacle(o, r)]",
        )],
    ),
    (
        "inventory",
        &[
            ("holdsany(a)", "You are carrying: [o.indefinite o.name | holds(a, o)]."),
            ("", "You are not carrying anything."),
        ],
    ),
    ("GotoLocation", &[("", "You arrive at {r}. #examineReceptacle#")]),
    (
        "examineReceptacle",
        &[
            ("openable(r) & opened(r)", "The {r} is open. In it, you see [o.indefinite o.name | inreceptacle(o, r)]."),
            ("openable(r)", "The {r} is closed."),
            ("", "On the {r}, you see [o.indefinite o.name | inreceptacle(o, r)]."),
        ],
    ),
    (
        "examineObject",
        &[
            (
                "isreceptacleobject(o)",
                "This is a normal {o}. In it, you see [o2.indefinite o2.name | inreceptacleobject(o2, o)].",
            ),
            ("isclean(o) & ishot(o) & issliced(o)", "This is a hot and clean sliced {o}."),
            ("isclean(o) & iscool(o) & issliced(o)", "This is a cool and clean sliced {o}."),
            ("isclean(o) & issliced(o)", "This is a clean sliced {o}."),
            ("ishot(o) & issliced(o)", "This is a hot sliced {o}."),
            ("iscool(o) & issliced(o)", "This is a cool sliced {o}."),
            ("isclean(o) & ishot(o)", "This is a hot and clean {o}."),
            ("isclean(o) & iscool(o)", "This is a cool and clean {o}."),
            ("ishot(o)", "This is a hot {o}."),
            ("isclean(o)", "This is a clean {o}."),
            ("iscool(o)", "This is a cold {o}."),
            ("toggleable(o) & istoggled(o)", "This {o} is on."),
            ("sliceable(o) & issliced(o)", "This is a sliced {o}."),
            ("", "There's nothing special about {o}."),
        ],
    ),
    ("OpenObject", &[("", "You open the {r}. #examineReceptacle#")]),
    ("CloseObject", &[("", "You close the {r}.")]),
    ("PickupObject", &[("", "You pick up the {o} from the {r}.")]),
    ("PutObject", &[("", "You move the {o} to the {r}.")]),
    ("CleanObject", &[("", "You clean the {o} using the {r}.")]),
    ("HeatObject", &[("", "You heat the {o} using the {r}.")]),
    ("CoolObject", &[("", "You cool the {o} using the {r}.")]),
    ("SliceObject", &[("", "You sliced the {o} with the {ko}.")]),
    ("ToggleObject", &[("", "You turn on the {o}.")]),
    (
        "help",
        &[(
            "",
            "Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
",
        )],
    ),
];

/// The wording, compiled once.
pub(super) fn wording() -> Arc<Wording> {
    static WORDING: LazyLock<Arc<Wording>> = LazyLock::new(|| {
        let wording = grammar::from_tables(&COMMANDS, &ANSWERS);
        Arc::new(wording.expect("the tables above are rules that the grammar's reader knows"))
    });
    Arc::clone(&WORDING)
}

//! What there is in houses that are made here: kinds of receptacles and objects, in which rooms they are, what can be
//! done with them and what goes where. What goes where and what can be treated are the tables of ALFRED.

use super::game::{Abilities, Ability};

/// A kind of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Kitchen,
    Living,
    Bedroom,
    Bathroom,
}

impl Room {
    pub(super) const ALL: [Self; 4] = [Self::Kitchen, Self::Living, Self::Bedroom, Self::Bathroom];

    /// Its letter in the table of objects.
    fn letter(self) -> char {
        match self {
            Self::Kitchen => 'K',
            Self::Living => 'L',
            Self::Bedroom => 'B',
            Self::Bathroom => 'T',
        }
    }

    /// Kinds of receptacles with the fewest and the most of them.
    pub(super) fn receptacles(self) -> &'static [(&'static str, u64, u64)] {
        match self {
            Self::Kitchen => &[
                ("cabinet", 3, 9),
                ("coffeemachine", 1, 1),
                ("countertop", 1, 3),
                ("diningtable", 0, 1),
                ("drawer", 2, 6),
                ("fridge", 1, 1),
                ("garbagecan", 1, 1),
                ("microwave", 1, 1),
                ("shelf", 0, 3),
                ("sidetable", 0, 1),
                ("sinkbasin", 1, 1),
                ("stoveburner", 2, 4),
                ("toaster", 1, 1),
            ],
            Self::Living => &[
                ("armchair", 0, 2),
                ("cabinet", 0, 4),
                ("coffeetable", 1, 2),
                ("desk", 0, 1),
                ("diningtable", 0, 1),
                ("drawer", 0, 5),
                ("dresser", 0, 1),
                ("garbagecan", 1, 1),
                ("ottoman", 0, 1),
                ("safe", 0, 1),
                ("shelf", 0, 4),
                ("sidetable", 1, 3),
                ("sofa", 1, 1),
                ("tvstand", 0, 1),
            ],
            Self::Bedroom => &[
                ("armchair", 0, 1),
                ("bed", 1, 1),
                ("cabinet", 0, 2),
                ("desk", 1, 1),
                ("drawer", 1, 8),
                ("dresser", 0, 1),
                ("garbagecan", 1, 1),
                ("laundryhamper", 0, 1),
                ("safe", 0, 1),
                ("shelf", 0, 5),
                ("sidetable", 0, 2),
            ],
            Self::Bathroom => &[
                ("bathtubbasin", 0, 1),
                ("cabinet", 1, 5),
                ("cart", 0, 1),
                ("countertop", 1, 2),
                ("drawer", 0, 4),
                ("garbagecan", 1, 1),
                ("handtowelholder", 1, 2),
                ("shelf", 0, 3),
                ("sidetable", 0, 1),
                ("sinkbasin", 1, 2),
                ("toilet", 1, 1),
                ("toiletpaperhanger", 1, 1),
                ("towelholder", 1, 1),
            ],
        }
    }
}

/// Receptacles that have a door or are drawn out.
const OPENABLE: [&str; 5] = ["cabinet", "drawer", "fridge", "microwave", "safe"];

/// Receptacles on which nearly everything can stand; `tables` in the table of objects.
const TABLES: [&str; 4] = ["coffeetable", "countertop", "diningtable", "sidetable"];

/// What lamps stand on.
pub(super) const LAMP_STANDS: [&str; 6] = ["coffeetable", "desk", "dresser", "shelf", "sidetable", "sofa"];

/// Lamps, which are switched on and never carried.
pub(super) const LAMPS: [&str; 2] = ["desklamp", "floorlamp"];

pub(super) fn is_openable(receptacle: &str) -> bool {
    OPENABLE.contains(&receptacle)
}

/// A kind of object.
pub(super) struct Kind {
    pub(super) name: &'static str,
    rooms: &'static str,
    /// It can be cleaned (`c`), heated (`h`), cooled (`o`), sliced (`s`), it cuts (`k`), it contains things (`r`).
    abilities: &'static str,
    receptacles: &'static str,
}

impl Kind {
    pub(super) fn is_in(&self, room: Room) -> bool {
        self.rooms.contains(room.letter())
    }

    /// What can be done with it. All that is in the table can be carried.
    pub(super) fn abilities(&self) -> Abilities {
        let ability = |letter: char| match letter {
            'c' => Ability::Clean,
            'h' => Ability::Heat,
            'o' => Ability::Cool,
            's' => Ability::Slice,
            'k' => Ability::Cut,
            _ => Ability::Contain,
        };
        std::iter::once(Ability::PickUp).chain(self.abilities.chars().map(ability)).collect()
    }

    pub(super) fn goes_into(&self, receptacle: &str) -> bool {
        let mut kinds = self.receptacles.split(' ');
        kinds.any(|kind| kind == receptacle || kind == "tables" && TABLES.contains(&receptacle))
    }
}

const fn kind(name: &'static str, rooms: &'static str, abilities: &'static str, receptacles: &'static str) -> Kind {
    Kind { name, rooms, abilities, receptacles }
}

/// Kinds of objects: name, rooms, abilities, receptacles.
#[rustfmt::skip]
pub(super) const OBJECTS: [Kind; 56] = [
    kind("alarmclock", "B", "", "tables desk dresser shelf"),
    kind("apple", "K", "chos", "tables fridge garbagecan microwave sinkbasin"),
    kind("baseballbat", "B", "", "tables bed"),
    kind("basketball", "B", "", "tables armchair bed desk dresser ottoman sofa"),
    kind("book", "KLB", "", "tables armchair bed cabinet desk drawer dresser ottoman shelf sofa"),
    kind("bowl", "KLB", "cor", "tables cabinet desk dresser fridge microwave shelf sinkbasin"),
    kind("box", "LB", "r", "tables armchair cabinet desk dresser ottoman shelf sofa"),
    kind("bread", "K", "hos", "tables fridge garbagecan microwave"),
    kind("butterknife", "K", "ck", "tables drawer sinkbasin"),
    kind("cd", "LB", "", "tables cabinet desk drawer dresser garbagecan safe shelf"),
    kind("candle", "LT", "", "tables cabinet cart desk drawer dresser shelf toilet"),
    kind("cellphone", "KLB", "", "tables armchair bed desk drawer dresser ottoman safe shelf sofa"),
    kind("cloth", "BT", "c", "tables armchair bathtubbasin cabinet cart desk drawer dresser garbagecan laundryhamper ottoman shelf sinkbasin sofa toilet"),
    kind("creditcard", "KLB", "", "tables armchair desk drawer dresser ottoman safe shelf sofa"),
    kind("cup", "K", "chor", "tables cabinet desk dresser fridge microwave shelf sinkbasin"),
    kind("dishsponge", "KT", "c", "tables bathtubbasin cabinet cart drawer garbagecan shelf sinkbasin toilet"),
    kind("egg", "K", "chos", "tables fridge garbagecan microwave sinkbasin"),
    kind("fork", "K", "c", "tables drawer sinkbasin"),
    kind("glassbottle", "K", "", "tables cabinet desk dresser fridge microwave shelf sinkbasin"),
    kind("handtowel", "T", "", "tables bathtubbasin cabinet cart drawer garbagecan handtowelholder shelf sinkbasin toilet"),
    kind("kettle", "K", "c", "tables cabinet shelf sinkbasin stoveburner"),
    kind("keychain", "LB", "", "tables armchair desk drawer dresser ottoman safe shelf sofa"),
    kind("knife", "K", "ck", "tables drawer sinkbasin"),
    kind("ladle", "K", "c", "tables cabinet drawer sinkbasin"),
    kind("laptop", "LB", "", "tables armchair bed desk dresser ottoman sofa"),
    kind("lettuce", "K", "cos", "tables fridge garbagecan sinkbasin"),
    kind("mug", "KB", "chor", "tables cabinet cart coffeemachine desk dresser fridge microwave shelf sinkbasin"),
    kind("newspaper", "LT", "", "tables armchair bed cabinet desk drawer dresser garbagecan ottoman shelf sofa toilet"),
    kind("pan", "K", "cor", "tables cabinet fridge sinkbasin stoveburner"),
    kind("papertowel", "KT", "", "tables cart garbagecan shelf toilet"),
    kind("pen", "LB", "", "tables desk drawer dresser garbagecan shelf"),
    kind("pencil", "LB", "", "tables desk drawer dresser garbagecan shelf"),
    kind("peppershaker", "K", "", "tables cabinet drawer shelf"),
    kind("pillow", "LB", "", "armchair bed ottoman sofa"),
    kind("plate", "KL", "chor", "tables cabinet desk dresser fridge microwave shelf sinkbasin"),
    kind("plunger", "T", "", "cabinet cart"),
    kind("pot", "K", "cor", "tables cabinet fridge shelf sinkbasin stoveburner"),
    kind("potato", "K", "chos", "tables fridge garbagecan microwave sinkbasin"),
    kind("remotecontrol", "LB", "", "tables armchair desk drawer dresser ottoman shelf sofa"),
    kind("saltshaker", "K", "", "tables cabinet drawer shelf"),
    kind("soapbar", "T", "c", "tables bathtubbasin cabinet cart drawer garbagecan shelf sinkbasin toilet"),
    kind("soapbottle", "KT", "", "tables cabinet cart desk drawer garbagecan shelf toilet"),
    kind("spatula", "K", "c", "tables drawer sinkbasin"),
    kind("spoon", "K", "c", "tables drawer sinkbasin"),
    kind("spraybottle", "T", "", "tables cabinet cart desk drawer dresser garbagecan shelf toilet"),
    kind("statue", "KLB", "", "tables cart desk dresser safe shelf"),
    kind("tennisracket", "B", "", "tables bed desk dresser"),
    kind("tissuebox", "LBT", "", "tables cabinet cart desk drawer dresser garbagecan shelf toilet tvstand"),
    kind("toiletpaper", "T", "", "tables cabinet cart desk drawer dresser garbagecan shelf toilet toiletpaperhanger"),
    kind("toiletpaperroll", "T", "", "tables cabinet cart desk drawer dresser garbagecan shelf toilet toiletpaperhanger"),
    kind("tomato", "K", "chos", "tables fridge garbagecan microwave sinkbasin"),
    kind("towel", "T", "", "towelholder"),
    kind("vase", "KLB", "", "tables cabinet cart desk dresser safe shelf"),
    kind("watch", "LB", "", "tables desk drawer dresser safe shelf"),
    kind("wateringcan", "L", "", "tables cabinet desk drawer dresser shelf"),
    kind("winebottle", "K", "o", "tables cabinet desk dresser fridge garbagecan shelf"),
];

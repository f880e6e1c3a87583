//! What generated products are made of: kinds of products, and what there is to say and to choose about each.
//!
//! A value of an option must not have a colour inside a longer word (`standard` has `tan`): under the original's rules
//! no purchase would match it.

/// A kind of product.
pub(super) struct Kind {
    /// What people call it when they look for it.
    pub(super) query: &'static str,
    /// What a title calls it.
    pub(super) noun: &'static str,
    pub(super) path: &'static str,
    /// Attributes that stand before it, that it has, and that it is for.
    pub(super) before: &'static [&'static str],
    pub(super) with: &'static [&'static str],
    pub(super) uses: &'static [&'static str],
    pub(super) options: &'static [Options],
    /// The lowest and the highest price, in dollars.
    pub(super) price: (u64, u64),
}

/// Something to choose: its name and the values that products draw theirs from.
pub(super) type Options = (&'static str, &'static [&'static str]);

/// A department: WebShop's category, and its kinds.
pub(super) struct Department {
    pub(super) category: &'static str,
    pub(super) kinds: &'static [Kind],
}

const SHADES: &[&str] = &[
    "black",
    "white",
    "navy blue",
    "dark grey",
    "burgundy",
    "olive green",
    "khaki",
    "light pink",
    "royal blue",
    "coffee",
    "beige",
    "wine red",
    "army green",
    "lavender",
    "charcoal",
    "mustard yellow",
    "teal",
    "heather grey",
    "rust orange",
    "sky blue",
];
const CLOTHES: Options = ("size", &["x-small", "small", "medium", "large", "x-large", "xx-large", "3x-large"]);
const SHOES: Options = ("size", &["6", "6.5", "7", "7.5", "8", "8.5", "9", "9.5", "10", "11", "12"]);
const COLOR: Options = ("color", SHADES);
const FIT: Options = ("fit type", &["men", "women", "youth"]);
const BEDS: Options = ("size", &["twin", "full", "queen", "king", "california king"]);
const RUGS: Options = ("size", &["2' x 3'", "3' x 5'", "4' x 6'", "5' x 8'", "8' x 10'", "2' x 8' runner"]);
const PILLOWS: Options = ("size", &["12 x 20 inch", "16 x 16 inch", "18 x 18 inch", "20 x 20 inch", "24 x 24 inch"]);
const FINISH: Options = ("color", &["espresso", "walnut", "white oak", "rustic brown", "black", "natural", "grey"]);
const PACKS: Options = ("size", &["pack of 1", "pack of 2", "pack of 3", "pack of 6", "pack of 12"]);
const WEIGHTS: Options = ("size", &["4 ounce", "8 ounce", "12 ounce", "1 pound", "2 pound", "5 pound"]);
const SWEETS: Options = (
    "flavor name",
    &["dark chocolate", "salted caramel", "peanut butter", "vanilla", "strawberry", "mint", "lemon", "raspberry"],
);
const SAVOURY: Options =
    ("flavor name", &["sea salt", "barbecue", "sour cream", "jalapeno", "honey", "garlic", "original", "lime chili"]);
const TEAS: Options =
    ("flavor name", &["earl grey", "jasmine", "rooibos", "chamomile", "ginger", "hibiscus", "oolong"]);
const SCENTS: Options =
    ("scent", &["lavender", "coconut", "rose", "eucalyptus", "unscented", "vanilla", "lemon verbena", "cedar"]);
const VOLUMES: Options = ("size", &["1 fl oz", "2 fl oz", "4 fl oz", "8 fl oz", "16 fl oz"]);
const TONES: Options =
    ("color", &["nude", "rose", "coral", "plum", "berry", "mauve", "peach", "cherry red", "deep brown"]);
const HAIR: Options = ("size", &["8 inch", "10 inch", "12 inch", "14 inch", "16 inch", "18 inch", "20 inch"]);
const CABLES: Options = ("size", &["3 feet", "6 feet", "10 feet", "15 feet", "25 feet", "50 feet"]);
const PHONES: Options = ("compatible model", &["mini", "plus", "pro", "pro max", "ultra"]);
const STORAGE: Options = ("capacity", &["16 gb", "32 gb", "64 gb", "128 gb", "256 gb", "512 gb"]);
const SCREENS: Options = ("size", &["10 inch", "11 inch", "13 inch", "14 inch", "15.6 inch", "17 inch"]);
const FRAMES: Options = ("size", &["8 x 10 inch", "11 x 14 inch", "12 x 16 inch", "16 x 24 inch", "24 x 36 inch"]);

const GARMENT: &[&str] =
    &["machine wash", "hand wash", "slim fit", "loose fit", "classic fit", "quick drying", "moisture wicking"];
const CLOTH: &[&str] = &[
    "long sleeve",
    "short sleeve",
    "button closure",
    "polyester spandex",
    "stretch fabric",
    "cotton spandex",
    "elastic closure",
];
const WEAR: &[&str] = &["daily wear", "work wear", "teen girls", "gym workout", "everyday wear", "holiday parties"];
const SHOE: &[&str] = &["slip resistant", "light weight", "water resistant", "anti slip", "wide fit"];
const SOLES: &[&str] =
    &["rubber sole", "memory foam", "arch support", "ankle strap", "leather lining", "synthetic sole"];
const STEPS: &[&str] = &["daily wear", "outdoor walking", "running training", "wedding parties", "hiking trips"];
const HOUSE: &[&str] =
    &["easy clean", "easy assemble", "space saving", "heavy duty", "eco friendly", "super soft", "fade resistant"];
const BUILD: &[&str] =
    &["solid wood", "steel frame", "storage space", "memory foam", "non slip backing", "wood finish", "tempered glass"];
const ROOMS: &[&str] =
    &["living room", "dining room", "bedroom decor", "home office", "guest room", "small apartments"];
const FOOD: &[&str] = &[
    "gluten free",
    "sugar free",
    "dairy free",
    "non gmo",
    "kosher certified",
    "plant based",
    "low sodium",
    "keto friendly",
];
const TASTE: &[&str] =
    &["natural ingredients", "high protein", "dietary fiber", "real fruit", "no artificial colors", "resealable bag"];
const MEALS: &[&str] =
    &["gift giving", "school lunches", "quick snacks", "birthday parties", "camping trips", "breakfast tables"];
const CARE: &[&str] =
    &["cruelty free", "paraben free", "long lasting", "alcohol free", "fragrance free", "easy apply", "oil free"];
const BALM: &[&str] =
    &["tea tree", "hyaluronic acid", "coconut oil", "vitamin e", "essential oils", "argan oil", "shea butter"];
const SKIN: &[&str] =
    &["sensitive skin", "dry skin", "dry hair", "fine lines", "damaged hair", "dark circles", "daily makeup"];
const DEVICE: &[&str] =
    &["easy install", "high speed", "fast charging", "plug play", "noise cancelling", "high definition", "long range"];
const PARTS: &[&str] = &[
    "aluminum alloy",
    "carrying case",
    "gold plated connectors",
    "usb port",
    "wireless bluetooth",
    "stereo sound",
    "led backlight",
];
const USERS: &[&str] =
    &["home theater", "video calls", "office desks", "car travel", "online gaming", "outdoor events"];

macro_rules! kind {
    ($query:literal, $noun:literal, $path:literal, $before:ident, $with:ident, $uses:ident, [$($option:ident),*], $low:literal..$high:literal) => {
        Kind {
            query: $query,
            noun: $noun,
            path: $path,
            before: $before,
            with: $with,
            uses: $uses,
            options: &[$($option),*],
            price: ($low, $high),
        }
    };
}

/// Everything that can be for sale.
pub(super) const DEPARTMENTS: &[Department] = &[
    Department {
        category: "fashion",
        kinds: &[
            kind!(
                "men's dress shirts",
                "Dress Shirt",
                "Clothing › Men › Shirts › Dress Shirts",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                15..70
            ),
            kind!(
                "men's t-shirts",
                "Graphic T-Shirt",
                "Clothing › Men › Shirts › T-Shirts",
                GARMENT,
                CLOTH,
                WEAR,
                [FIT, COLOR, CLOTHES],
                9..35
            ),
            kind!(
                "women's dresses",
                "Midi Dress",
                "Clothing › Women › Dresses › Casual",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                18..90
            ),
            kind!(
                "women's tops",
                "Tunic Blouse",
                "Clothing › Women › Tops › Blouses",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                10..45
            ),
            kind!(
                "men's hoodies",
                "Pullover Hoodie",
                "Clothing › Men › Sweatshirts › Hoodies",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                20..75
            ),
            kind!(
                "women's jeans",
                "Skinny Jeans",
                "Clothing › Women › Jeans",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                22..85
            ),
            kind!(
                "women's sweaters",
                "Knit Cardigan",
                "Clothing › Women › Sweaters › Cardigans",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                16..80
            ),
            kind!(
                "men's shorts",
                "Cargo Shorts",
                "Clothing › Men › Shorts",
                GARMENT,
                CLOTH,
                WEAR,
                [COLOR, CLOTHES],
                12..48
            ),
            kind!(
                "men's loafers",
                "Penny Loafers",
                "Shoes › Men › Loafers & Slip-Ons",
                SHOE,
                SOLES,
                STEPS,
                [COLOR, SHOES],
                28..140
            ),
            kind!(
                "women's sandals",
                "Wedge Sandals",
                "Shoes › Women › Sandals",
                SHOE,
                SOLES,
                STEPS,
                [COLOR, SHOES],
                15..95
            ),
            kind!(
                "running shoes",
                "Running Sneakers",
                "Shoes › Athletic › Running",
                SHOE,
                SOLES,
                STEPS,
                [COLOR, SHOES],
                35..180
            ),
            kind!(
                "women's ankle boots",
                "Chelsea Boots",
                "Shoes › Women › Boots › Ankle",
                SHOE,
                SOLES,
                STEPS,
                [COLOR, SHOES],
                40..210
            ),
        ],
    },
    Department {
        category: "garden",
        kinds: &[
            kind!(
                "throw pillow covers",
                "Throw Pillow Cover",
                "Home › Bedding › Decorative Pillows",
                HOUSE,
                BUILD,
                ROOMS,
                [COLOR, PILLOWS],
                8..40
            ),
            kind!(
                "area rugs",
                "Area Rug",
                "Home › Decor › Rugs › Area Rugs",
                HOUSE,
                BUILD,
                ROOMS,
                [COLOR, RUGS],
                20..320
            ),
            kind!(
                "bed frames",
                "Platform Bed Frame",
                "Home › Furniture › Bedroom › Bed Frames",
                HOUSE,
                BUILD,
                ROOMS,
                [FINISH, BEDS],
                110..620
            ),
            kind!(
                "console tables",
                "Console Table",
                "Home › Furniture › Living Room › Tables",
                HOUSE,
                BUILD,
                ROOMS,
                [FINISH],
                60..420
            ),
            kind!(
                "bookcases",
                "Bookshelf",
                "Home › Furniture › Office › Bookcases",
                HOUSE,
                BUILD,
                ROOMS,
                [FINISH],
                45..260
            ),
            kind!(
                "bar stools",
                "Counter Stool",
                "Home › Furniture › Kitchen › Stools",
                HOUSE,
                BUILD,
                ROOMS,
                [COLOR],
                40..230
            ),
            kind!(
                "blackout curtains",
                "Curtain Panels",
                "Home › Decor › Window › Curtains",
                HOUSE,
                BUILD,
                ROOMS,
                [COLOR],
                15..85
            ),
            kind!(
                "canvas wall art",
                "Canvas Print",
                "Home › Decor › Art › Canvas",
                HOUSE,
                BUILD,
                ROOMS,
                [FRAMES],
                12..150
            ),
            kind!(
                "table lamps",
                "Table Lamp",
                "Home › Lighting › Lamps › Table Lamps",
                HOUSE,
                BUILD,
                ROOMS,
                [FINISH],
                18..130
            ),
            kind!(
                "sofas",
                "Sectional Sofa",
                "Home › Furniture › Living Room › Sofas",
                HOUSE,
                BUILD,
                ROOMS,
                [COLOR],
                280..980
            ),
        ],
    },
    Department {
        category: "grocery",
        kinds: &[
            kind!(
                "protein bars",
                "Protein Bars",
                "Grocery › Snacks › Bars › Protein",
                FOOD,
                TASTE,
                MEALS,
                [SWEETS, PACKS],
                8..45
            ),
            kind!(
                "chocolate gifts",
                "Truffle Box",
                "Grocery › Sweets › Chocolate › Gifts",
                FOOD,
                TASTE,
                MEALS,
                [SWEETS, WEIGHTS],
                12..80
            ),
            kind!(
                "potato chips",
                "Kettle Chips",
                "Grocery › Snacks › Chips › Potato",
                FOOD,
                TASTE,
                MEALS,
                [SAVOURY, PACKS],
                4..38
            ),
            kind!(
                "mixed nuts",
                "Roasted Nut Mix",
                "Grocery › Snacks › Nuts › Mixed",
                FOOD,
                TASTE,
                MEALS,
                [SAVOURY, WEIGHTS],
                7..55
            ),
            kind!(
                "herbal tea",
                "Loose Leaf Tea",
                "Grocery › Drinks › Tea › Herbal",
                FOOD,
                TASTE,
                MEALS,
                [TEAS, WEIGHTS],
                6..40
            ),
            kind!(
                "granola",
                "Crunchy Granola",
                "Grocery › Breakfast › Cereal › Granola",
                FOOD,
                TASTE,
                MEALS,
                [SWEETS, WEIGHTS],
                5..36
            ),
            kind!(
                "beef jerky",
                "Jerky Strips",
                "Grocery › Snacks › Meat › Jerky",
                FOOD,
                TASTE,
                MEALS,
                [SAVOURY, PACKS],
                9..60
            ),
            kind!(
                "crackers",
                "Seed Crackers",
                "Grocery › Snacks › Crackers",
                FOOD,
                TASTE,
                MEALS,
                [SAVOURY, PACKS],
                4..30
            ),
            kind!(
                "cookies",
                "Shortbread Cookies",
                "Grocery › Sweets › Cookies",
                FOOD,
                TASTE,
                MEALS,
                [SWEETS, PACKS],
                5..42
            ),
        ],
    },
    Department {
        category: "beauty",
        kinds: &[
            kind!(
                "face moisturizers",
                "Face Cream",
                "Beauty › Skin Care › Face › Moisturizers",
                CARE,
                BALM,
                SKIN,
                [SCENTS, VOLUMES],
                8..75
            ),
            kind!(
                "shampoo",
                "Repair Shampoo",
                "Beauty › Hair Care › Shampoo",
                CARE,
                BALM,
                SKIN,
                [SCENTS, VOLUMES],
                6..48
            ),
            kind!("lipstick", "Matte Lipstick", "Beauty › Makeup › Lips › Lipstick", CARE, BALM, SKIN, [TONES], 5..40),
            kind!(
                "body scrubs",
                "Sugar Body Scrub",
                "Beauty › Skin Care › Body › Scrubs",
                CARE,
                BALM,
                SKIN,
                [SCENTS, VOLUMES],
                9..50
            ),
            kind!(
                "hair extensions",
                "Clip Hair Extensions",
                "Beauty › Hair Care › Extensions",
                CARE,
                BALM,
                SKIN,
                [HAIR],
                15..160
            ),
            kind!(
                "lip balm",
                "Lip Balm Sticks",
                "Beauty › Skin Care › Lips › Balms",
                CARE,
                BALM,
                SKIN,
                [SCENTS, PACKS],
                3..25
            ),
            kind!(
                "foundation makeup",
                "Liquid Foundation",
                "Beauty › Makeup › Face › Foundation",
                CARE,
                BALM,
                SKIN,
                [TONES, VOLUMES],
                7..55
            ),
            kind!(
                "bath bombs",
                "Bath Bomb Set",
                "Beauty › Bath › Additives › Bath Bombs",
                CARE,
                BALM,
                SKIN,
                [SCENTS, PACKS],
                6..44
            ),
        ],
    },
    Department {
        category: "electronics",
        kinds: &[
            kind!(
                "hdmi cables",
                "HDMI Cable",
                "Electronics › Accessories › Cables › HDMI",
                DEVICE,
                PARTS,
                USERS,
                [CABLES, COLOR],
                6..60
            ),
            kind!(
                "phone cases",
                "Phone Case",
                "Electronics › Phones › Accessories › Cases",
                DEVICE,
                PARTS,
                USERS,
                [COLOR, PHONES],
                8..45
            ),
            kind!(
                "wireless earbuds",
                "Wireless Earbuds",
                "Electronics › Audio › Headphones › Earbuds",
                DEVICE,
                PARTS,
                USERS,
                [COLOR],
                18..220
            ),
            kind!(
                "laptop sleeves",
                "Laptop Sleeve",
                "Electronics › Computers › Bags › Sleeves",
                DEVICE,
                PARTS,
                USERS,
                [COLOR, SCREENS],
                12..65
            ),
            kind!(
                "usb flash drives",
                "USB Flash Drive",
                "Electronics › Computers › Storage › Flash Drives",
                DEVICE,
                PARTS,
                USERS,
                [STORAGE, COLOR],
                6..90
            ),
            kind!(
                "bluetooth speakers",
                "Bluetooth Speaker",
                "Electronics › Audio › Speakers › Portable",
                DEVICE,
                PARTS,
                USERS,
                [COLOR],
                20..260
            ),
            kind!(
                "gaming keyboards",
                "Gaming Keyboard",
                "Electronics › Computers › Input › Keyboards",
                DEVICE,
                PARTS,
                USERS,
                [COLOR],
                25..190
            ),
            kind!(
                "tablet stands",
                "Tablet Stand",
                "Electronics › Computers › Accessories › Stands",
                DEVICE,
                PARTS,
                USERS,
                [COLOR, SCREENS],
                10..70
            ),
            kind!(
                "security cameras",
                "Security Camera",
                "Electronics › Cameras › Surveillance",
                DEVICE,
                PARTS,
                USERS,
                [PACKS],
                30..340
            ),
        ],
    },
];

/// What names of brands and models are made of.
pub(super) const SYLLABLES: &[&str] = &[
    "ka", "vo", "ri", "zen", "tor", "li", "mar", "do", "fen", "qua", "bri", "sol", "nex", "pha", "gul", "wex", "ju",
    "hap", "cor", "yel", "dra", "mio", "tuk", "sab", "ent", "oru",
];

/// What descriptions say beside attributes; `{noun}` stands for the product.
pub(super) const PRAISE: &[&str] = &[
    "A {noun} that does what it should, every day.",
    "People who buy this {noun} once come back for a second one.",
    "We test each {noun} before it leaves our house.",
    "Makes a thoughtful present for friends and family.",
    "If anything is wrong with your {noun}, write to us and we will help.",
    "Made in small batches by people who care.",
    "Please compare the size chart before you order.",
    "Photos may differ a little from the real thing.",
];

//! Errors and warnings with spans.

use crate::span::Span;
use p4jet_suggest as suggest;

/// Maximum number of errors reported in one run.
pub(crate) const ERRORS_MAX: usize = 50;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The program is wrong, or needs an unsupported feature.
    Error,
    /// The program is legal but doubtful.
    Warning,
    /// A warning that `--Winfo` reduces to a remark.
    Info,
}

/// The codes of all errors with descriptions, sorted. They are stable: scripts may rely on them.
pub const ERRORS: &[(&str, &str)] = &[
    ("annotation", "an annotation with an invalid body or in an invalid place"),
    ("argument-count", "a call with too few or too many arguments"),
    ("arguments", "arguments that do not match the parameters: names, `_`, an unknown parameter"),
    ("bad-character", "a character that P4 does not allow"),
    ("bad-condition", "an `#if` whose condition cannot be evaluated"),
    ("bad-conditional", "`#else`, `#elif` or `#endif` out of place"),
    ("bad-directive", "an incomplete preprocessor directive"),
    ("bad-integer", "a malformed number"),
    ("bad-paste", "`##` at the beginning or end of a macro's body"),
    ("cannot-infer", "type arguments or widths that cannot be inferred"),
    ("cast", "a cast between types that cannot be cast"),
    ("constructor", "a constructor with another name or with a return type"),
    ("direct-application", "`C.apply()` of a type that needs constructor arguments"),
    ("direction", "a parameter with an invalid direction"),
    ("duplicate-control-name", "two objects with the same control-plane name"),
    ("duplicate-declaration", "a second declaration of a name in a scope"),
    ("duplicate-entry", "two `const` entries of a table with the same key"),
    ("duplicate-field", "a field that has two values"),
    ("element-count", "`{ … }` with too few or too many elements"),
    ("enum", "an enum's members and their values"),
    ("error-directive", "`#error`"),
    ("include-not-found", "an include file that does not exist"),
    ("initializer", "an instance's `= { … }`: abstract methods, invalid contents"),
    ("internal", "a bug in p4jet: please report it"),
    ("keyset", "key sets of a `select` or of entries that do not fit the keys"),
    ("limit-exceeded", "a program that exceeds a limit of nesting or expansion"),
    ("macro-call", "a macro called with the wrong number of arguments"),
    ("main", "a missing `main`, or one that is not a package"),
    ("missing-field", "a struct value with missing fields"),
    ("missing-include", "a name from a standard include file that the program does not include"),
    ("missing-return", "a function that does not return a value on every path"),
    ("not-a-type", "a name that is not a type where a type is expected"),
    ("not-a-value", "a name that is not a value where a value is expected"),
    ("not-an-l-value", "something that cannot be assigned to"),
    ("not-callable", "something that cannot be called"),
    ("not-constant", "a value that must be known at compile time"),
    ("not-supported", "valid P4_16 that p4jet does not support yet"),
    ("operator", "an operator whose operands have unsuitable types"),
    ("out-of-range", "a number that is too small or too large"),
    ("overload", "a call for which no function, or more than one, fits"),
    ("place", "a declaration or a call in a place where it is not allowed"),
    ("recursion", "a call cycle"),
    ("recursive-type", "a type that contains itself"),
    ("return", "a `return` without the required value, or with a value where none is allowed"),
    ("shadow", "a variable that hides a parameter"),
    ("slice", "a slice `[high:low]` with invalid bounds"),
    ("statement", "an expression that is not a statement"),
    ("static-assert", "a `static_assert` that does not hold"),
    ("switch", "an invalid `switch` or label"),
    ("syntax", "text that does not match the grammar"),
    ("system", "the system refused memory or a thread"),
    ("table", "a table's properties, keys, entries and default action"),
    ("this", "`this` outside an abstract method"),
    ("too-deep", "a program that nests too deeply"),
    (
        "too-large",
        "a program beyond a limit of size, such as one that becomes too large when all calls are expanded",
    ),
    ("type-arguments", "too few or too many type arguments"),
    ("type-mismatch", "a value of the wrong type"),
    ("type-nesting", "a type that cannot be nested in another"),
    ("unknown-action", "an action that does not exist or that the table does not list"),
    ("unknown-field", "a field that does not exist"),
    ("unknown-member", "a member that does not exist"),
    ("unknown-method", "a method that does not exist"),
    ("unknown-name", "a name that is not declared"),
    ("unknown-property", "a misspelled table property"),
    ("unknown-state", "a parser state that does not exist"),
    ("unreachable", "a parser that cannot end"),
    ("unreadable", "a program that cannot be read"),
    ("unterminated-comment", "an unterminated comment"),
    ("unterminated-if", "an `#if` without `#endif`"),
    ("unterminated-string", "an unterminated string"),
    ("width", "a type with an invalid width"),
];

/// One error or warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// Stable short name of the kind, lower-case with dashes: `unknown-name`, `type-mismatch`, `not-supported`, …
    pub code: &'static str,
    /// The message: found, and expected.
    pub message: String,
    /// Source place.
    pub span: Span,
    /// Text next to the caret; may be empty.
    pub label: String,
    /// Other places involved: "declared here".
    pub related: Vec<(Span, String)>,
    /// Valid choices, what to do.
    pub notes: Vec<String>,
    /// The valid choices, for tools; the one that was probably meant comes first. At most 100; for users, the notes list
    /// them.
    pub choices: Vec<String>,
}

/// Maximum number of choices of a diagnostic.
const CHOICES_MAX: usize = 100;

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        debug_assert!(
            ERRORS.binary_search_by_key(&code, |(known, _)| known).is_ok(),
            "`{code}` is not in ERRORS, or that is not sorted"
        );
        Self::new(Severity::Error, code, span, message)
    }

    fn new(severity: Severity, code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity,
            code,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            notes: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// A warning at `span`.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message)
    }

    /// The program is legal P4_16 but p4jet cannot do `what` yet. The message reads "not supported yet: WHAT".
    pub fn unsupported(span: Span, what: impl std::fmt::Display) -> Self {
        Self::error("not-supported", span, format!("not supported yet: {what}"))
    }

    /// Adds text next to the caret.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// Adds another place.
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }

    /// Adds the choice that was probably meant.
    pub fn meant(mut self, near: impl std::fmt::Display) -> Self {
        self.notes.push(format!("did you mean `{near}`?"));
        self.choices.insert(0, near.to_string());
        self
    }

    /// Adds the name that was probably meant, if one of them is similar to the given word.
    pub fn suggest<'a>(self, word: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        match suggest::nearest(word, names) {
            Some(near) => self.meant(near),
            None => self,
        }
    }

    /// Adds the valid choices; `what` describes them: "its states".
    pub fn choices<S: AsRef<str>>(self, what: impl std::fmt::Display, names: &[S]) -> Self {
        self.some_choices(what, names, suggest::LISTED_MAX)
    }

    /// Adds the valid choices, of which the note names at most `max`.
    pub fn some_choices<S: AsRef<str>>(
        mut self,
        what: impl std::fmt::Display,
        names: &[S],
        max: usize,
    ) -> Self {
        self.notes.push(format!("{what}: {}", suggest::some(names, max)));
        for name in names.iter().map(AsRef::as_ref).take(CHOICES_MAX) {
            if !self.choices.iter().any(|choice| choice == name) {
                self.choices.push(name.to_string());
            }
        }
        self
    }

    /// Adds a note: what to do.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

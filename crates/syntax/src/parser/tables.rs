//! `tableDeclaration`.

use super::{Name, Parse, Parser};
use crate::ast::{
    ActionRef, Annotation, DeclKind, Entry, Expr, ExprKind, KeyElement, TableDecl, TableProperty,
    TablePropertyKind,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Keyword, Kind};

impl Parser<'_> {
    /// `table name { tablePropertyList }`
    pub(super) fn table(&mut self) -> Parse<DeclKind> {
        self.bump();
        let name = self.declared_name("the table's name", Name::Other)?;
        let mut properties = Vec::new();
        self.braced("the table", |p| p.table_element(&mut properties))?;
        Ok(DeclKind::Table(TableDecl { name, properties }))
    }

    /// Continues a table that a superfluous `}` has closed, if its properties follow.
    pub(super) fn table_goes_on(&mut self, table: &mut TableDecl) -> bool {
        let at = usize::from(self.at_keyword(Keyword::Const));
        if !Self::is_name(self.kind_at(at)) || self.kind_at(at + 1) != Kind::Assign {
            return false;
        }
        let (closed, span) = (self.last_span(), self.span());
        let property = self.text(self.tokens[self.pos + at]);
        let text = format!("property `{property}` comes after the end of table `{}`", table.name.text);
        self.report(
            Diagnostic::error("syntax", span, text)
                .related(closed, "the table ends here")
                .note("is this `}` extra?"),
        );
        // An error among them has been reported.
        let _ = self.elements("the table", span, |_| false, |p| p.table_element(&mut table.properties));
        true
    }

    fn table_element(&mut self, properties: &mut Vec<TableProperty>) -> Parse<()> {
        let start = self.span();
        let annotations = self.annotations()?;
        if self.at(Kind::Semicolon) {
            let span = self.bump().span;
            let message = "expected a table property, found `;`";
            self.report(
                Diagnostic::error("syntax", span, message)
                    .note("no `;` follows `key`, `actions` and `entries`"),
            );
            return Ok(());
        }
        let is_const = self.eat_keyword(Keyword::Const);
        let kind = self.table_property()?;
        properties.push(TableProperty { annotations, is_const, kind, span: self.since(start) });
        Ok(())
    }

    fn table_property(&mut self) -> Parse<TablePropertyKind> {
        use Keyword::{Actions, Entries, Key};
        if self.kind_at(1) == Kind::Assign && self.kind_at(2) == Kind::LBrace {
            self.fix_keyword(&[Key, Actions, Entries]);
        }
        let keyword = self.kind();
        if let Kind::Keyword(Key | Actions | Entries) = keyword {
            self.bump();
            self.expect_after(Kind::Assign, &format!("`{}`", keyword.text()))?;
        }
        match keyword {
            Kind::Keyword(Key) => {
                let mut elements = Vec::new();
                self.braced("the key", |p| {
                    elements.push(p.key_element()?);
                    Ok(())
                })?;
                Ok(TablePropertyKind::Key(elements))
            }
            Kind::Keyword(Actions) => {
                let mut actions = Vec::new();
                self.braced("the list of actions", |p| {
                    let annotations = p.annotations()?;
                    actions.push(p.action_ref(annotations)?);
                    if p.at(Kind::Comma) {
                        let message = "expected `;` after the action, found `,`";
                        p.report(
                            Diagnostic::error("syntax", p.span(), message)
                                .note("actions of a table end with `;` each"),
                        );
                        p.bump();
                        return Ok(());
                    }
                    p.semicolon("the action")
                })?;
                Ok(TablePropertyKind::Actions(actions))
            }
            Kind::Keyword(Entries) => {
                let mut entries = Vec::new();
                self.braced("the entries", |p| {
                    entries.push(p.entry()?);
                    Ok(())
                })?;
                Ok(TablePropertyKind::Entries(entries))
            }
            _ => {
                let name =
                    self.name("a table property: `key`, `actions`, `entries`, `default_action`, `size` …")?;
                self.expect_after(Kind::Assign, "the property's name")?;
                let value = self.expr()?;
                self.semicolon("the table property")?;
                Ok(TablePropertyKind::Custom(name, value))
            }
        }
    }

    /// `expression : name optAnnotations ;`
    fn key_element(&mut self) -> Parse<KeyElement> {
        let start = self.span();
        let expr = self.expr()?;
        self.expect_after(Kind::Colon, "the key expression")?;
        let match_kind = self.name("a match kind, such as `exact`, `lpm` or `ternary`")?;
        let annotations = self.annotations()?;
        self.semicolon("the key element")?;
        Ok(KeyElement { expr, match_kind, annotations, span: self.since(start) })
    }

    /// `actionRef`
    fn action_ref(&mut self, annotations: Vec<Annotation>) -> Parse<ActionRef> {
        let start = annotations.first().map_or(self.span(), |a| a.span);
        let name = self.path("an action's name")?;
        let args = if self.at(Kind::LParen) { Some(self.args()?) } else { None };
        Ok(ActionRef { annotations, name, args, span: self.since(start) })
    }

    fn entry(&mut self) -> Parse<Entry> {
        let start = self.span();
        let is_const = self.eat_keyword(Keyword::Const);
        let mut priority = None;
        if self.at_keyword(Keyword::Priority) && self.kind_at(1) == Kind::Assign {
            self.bump();
            self.bump();
            priority = Some(self.entry_priority()?);
            self.expect_after(Kind::Colon, "the entry's priority")?;
        }
        let keyset = self.keyset()?;
        self.expect_after(Kind::Colon, "the entry's key set")?;
        let action = self.action_ref(Vec::new())?;
        let annotations = self.annotations()?;
        self.semicolon("the entry")?;
        Ok(Entry { is_const, priority, keyset, action, annotations, span: self.since(start) })
    }

    /// An integer, or any expression in parentheses.
    fn entry_priority(&mut self) -> Parse<Expr> {
        let start = self.span();
        if self.at(Kind::Integer) {
            let kind = ExprKind::Int(self.integer());
            return Ok(Expr { kind, span: start });
        }
        if !self.eat(Kind::LParen) {
            return self.expected("the priority: an integer, or an expression in parentheses");
        }
        let expr = self.expr()?;
        self.expect_close(Kind::RParen, start)?;
        Ok(Expr { span: self.since(start), ..expr })
    }
}

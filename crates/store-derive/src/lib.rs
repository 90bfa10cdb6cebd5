//! The derives of the crate `store`: a struct whose fields are columns. Use them as `store::FromRow` and `store::ToRow`,
//! where the traits are described.
//!
//! A field is the column of the same name. What differs is in the attribute `row`:
//! - `#[row("name")]` on a field: its column, or an expression such as `COALESCE(a.x, b.x)`. A column of another table has
//!   the table's alias: `#[row("s.suspended_at")]`.
//! - `#[row(flatten)]` on a field: its type is a struct with columns of its own, which stand here. `flatten = Part` reads a
//!   struct of another type, for `with`.
//! - `with = function` on a field that is only read: what makes the field of the value in the row.
//! - `#[row(skip)]` on a field that is only read: it is in no column, and gets its default.
//! - `#[row(of = "u")]` on the struct: the alias of its table in the statements that select it.
//!
//! A mistake is an error of the compiler at the field.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Data, DeriveInput, Error, Expr, Fields, Ident, LitStr, Result, Token, Type};

/// Derives `store::FromRow`: reads the struct from a row.
#[proc_macro_derive(FromRow, attributes(row))]
pub fn from_row(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(input, reading)
}

/// Derives `store::ToRow`: writes the struct to a row.
#[proc_macro_derive(ToRow, attributes(row))]
pub fn to_row(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(input, writing)
}

fn expand(
    input: proc_macro::TokenStream,
    derive: fn(&DeriveInput) -> Result<TokenStream>,
) -> proc_macro::TokenStream {
    let parsed = syn::parse(input).and_then(|input| derive(&input));
    parsed.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// A field and what it is in a row.
struct Field<'a> {
    ident: &'a Ident,
    source: Source,
    with: Option<Expr>,
}

enum Source {
    /// A column or an expression.
    Column(LitStr),
    /// The columns of a type, mostly the field's.
    Flatten(Box<Type>),
    /// None.
    Skip,
}

fn reading(input: &DeriveInput) -> Result<TokenStream> {
    let alias = alias(input)?;
    let (mut columns, mut reads) = (Vec::new(), Vec::new());
    for Field { ident, source, with } in fields(input)? {
        let read = match source {
            Source::Column(name) => {
                let name = qualified(&alias, &name.value());
                columns.push(quote!(::store::Column::One(#name)));
                quote!(cells.next()?)
            }
            Source::Flatten(part) => {
                columns.push(quote!(::store::Column::Of(#alias, <#part as ::store::FromRow>::COLUMNS)));
                quote!(<#part as ::store::FromRow>::from_cells(cells)?)
            }
            Source::Skip => quote!(::std::default::Default::default()),
        };
        reads.push(match with {
            Some(function) => quote!(#ident: (#function)(#read)),
            None => quote!(#ident: #read),
        });
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::store::FromRow for #name #arguments #bounds {
            const COLUMNS: &'static [::store::Column] = &[#(#columns),*];

            fn from_cells(
                cells: &mut ::store::Cells<'_, '_>,
            ) -> ::std::result::Result<Self, ::store::Error> {
                ::std::result::Result::Ok(#name { #(#reads),* })
            }
        }
    })
}

fn writing(input: &DeriveInput) -> Result<TokenStream> {
    let (mut columns, mut writes) = (Vec::new(), Vec::new());
    for Field { ident, source, with } in fields(input)? {
        match (source, with) {
            (Source::Column(name), None) if is_name(&name.value()) => {
                columns.push(quote!(::store::Column::One(#name)));
                writes.push(quote!(values.push(::store::ToValue::to_value(&self.#ident))));
            }
            (Source::Flatten(part), None) => {
                columns.push(quote!(::store::Column::Of("", <#part as ::store::ToRow>::COLUMNS)));
                writes.push(quote!(::store::ToRow::push_values(&self.#ident, values)));
            }
            _ => {
                let problem = "only a column of the table itself can be written, and as it is";
                return Err(Error::new_spanned(ident, problem));
            }
        }
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::store::ToRow for #name #arguments #bounds {
            const COLUMNS: &'static [::store::Column] = &[#(#columns),*];

            fn push_values<'values>(&'values self, values: &mut ::std::vec::Vec<::store::Value<'values>>) {
                #(#writes;)*
            }
        }
    })
}

/// The value of `#[row(of = "…")]`; empty without it.
fn alias(input: &DeriveInput) -> Result<String> {
    let mut alias = String::new();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("of") {
                return Err(meta.error("a struct takes `of = \"alias\"`"));
            }
            alias = meta.value()?.parse::<LitStr>()?.value();
            Ok(())
        })?;
    }
    Ok(alias)
}

fn fields(input: &DeriveInput) -> Result<Vec<Field<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "only a struct has columns"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "the fields need names: those of their columns"));
    };
    named.named.iter().filter_map(|field| Some((field.ident.as_ref()?, field))).map(field).collect()
}

fn field<'a>((ident, field): (&'a Ident, &'a syn::Field)) -> Result<Field<'a>> {
    let name = LitStr::new(&ident.unraw().to_string(), ident.span());
    let mut parsed = Field { ident, source: Source::Column(name), with: None };
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_args_with(|input: ParseStream<'_>| parsed.read(input, &field.ty))?;
    }
    Ok(parsed)
}

impl Field<'_> {
    /// Reads what is in the parentheses of `#[row(…)]`.
    fn read(&mut self, input: ParseStream<'_>, own: &Type) -> Result<()> {
        while !input.is_empty() {
            if input.peek(LitStr) {
                self.source = Source::Column(input.parse()?);
            } else {
                let word: Ident = input.parse()?;
                match word.to_string().as_str() {
                    "flatten" if input.parse::<Option<Token![=]>>()?.is_some() => {
                        self.source = Source::Flatten(input.parse()?);
                    }
                    "flatten" => self.source = Source::Flatten(Box::new(own.clone())),
                    "skip" => self.source = Source::Skip,
                    "with" => {
                        input.parse::<Token![=]>()?;
                        self.with = Some(input.parse()?);
                    }
                    _ => return Err(Error::new(word.span(), "use \"column\", flatten, with or skip")),
                }
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    }
}

/// Whether it is the plain name of a column.
fn is_name(column: &str) -> bool {
    column.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn qualified(alias: &str, column: &str) -> String {
    if alias.is_empty() || !is_name(column) { column.to_owned() } else { format!("{alias}.{column}") }
}

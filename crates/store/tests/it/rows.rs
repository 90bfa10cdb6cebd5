//! A struct whose fields are columns is written and read by one list, on every database.

use crate::support::Database;
use store::{
    Cells, Column, Error, FromRow, Time, ToRow, Value, Where, args, insert_row, select_row, statements,
    update_row,
};

on_each_database!(a_struct_comes_back_as_it_went_in, a_part_of_a_row_is_set_alone);

/// Text and bytes, which are one value here.
#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    text: Option<String>,
    bytes: Option<Vec<u8>>,
}

const CONTENT: &[Column] = &[Column::One("text"), Column::One("bytes")];

impl FromRow for Content {
    const COLUMNS: &'static [Column] = CONTENT;
    fn from_cells(cells: &mut Cells<'_, '_>) -> Result<Content, Error> {
        Ok(Content { text: cells.next()?, bytes: cells.next()? })
    }
}

impl ToRow for Content {
    const COLUMNS: &'static [Column] = CONTENT;
    fn push_values<'v>(&'v self, values: &mut Vec<Value<'v>>) {
        values.extend([Value::from(self.text.as_ref()), Value::from(self.bytes.as_ref())]);
    }
}

#[derive(Clone, Debug, PartialEq, FromRow, ToRow)]
#[row(of = "p")]
struct Sample {
    #[row("number")]
    at: Time,
    fraction: Option<f64>,
    #[row(flatten)]
    content: Content,
}

/// What a statement makes of the columns.
#[derive(Debug, PartialEq, FromRow)]
#[row(of = "p")]
struct Shown {
    number: i64,
    #[row("COALESCE(p.text, 'none')", with = length)]
    length: usize,
    #[row(flatten = Content, with = is_empty)]
    is_empty: bool,
    #[row(skip)]
    seen: bool,
}

fn length(text: String) -> usize {
    text.len()
}

fn is_empty(content: Content) -> bool {
    content == Content::default()
}

statements! {
    static PUT = insert_row::<Sample>("samples");
    static ALL = select_row::<Sample>("FROM samples p", "ORDER BY p.number");
    static SHOWN = select_row::<Shown>("FROM samples p", "ORDER BY p.number");
    static SET = update_row::<Content>("samples", "number");
}

fn samples() -> Vec<Sample> {
    let content = Content { text: Some("Zoë".to_owned()), bytes: Some(vec![0, 255]) };
    vec![
        Sample { at: Time::from_millis(1), fraction: None, content: Content::default() },
        Sample { at: Time::from_millis(2), fraction: Some(0.5), content },
    ]
}

async fn put(store: &store::Store) {
    let put = store.write("sample.put", |tx| {
        samples().iter().try_for_each(|sample| tx.exec(&PUT, &sample.values()).map(|_| ()))
    });
    put.await.map_err(|error: Error| error).expect("writes");
}

async fn a_struct_comes_back_as_it_went_in(database: Database) {
    let test = database.open();
    put(&test.store).await;
    let found = test.store.read(|snapshot| {
        let all = snapshot.all(&ALL, args![], Sample::from_row)?;
        let mut filter = Where::of::<Sample>("FROM samples p");
        filter.and("p.number >", 1);
        let (sql, args) = filter.finish("ORDER BY p.number");
        Ok((
            all,
            snapshot.all(&sql, &args, Sample::from_row)?,
            snapshot.all(&SHOWN, args![], Shown::from_row)?,
        ))
    });
    let (all, later, shown) = found.await.map_err(|error: Error| error).expect("reads");
    assert_eq!(all, samples());
    assert_eq!(later, samples()[1..]);
    let expected = [
        Shown { number: 1, length: 4, is_empty: true, seen: false },
        Shown { number: 2, length: 4, is_empty: false, seen: false },
    ];
    assert_eq!(shown, expected, "expressions and parts keep their places");
}

async fn a_part_of_a_row_is_set_alone(database: Database) {
    let test = database.open();
    put(&test.store).await;
    let set = test.store.write("sample.set", |tx| tx.exec(&SET, &Content::default().values_of(2)));
    assert_eq!(set.await.map_err(|error: Error| error).expect("writes"), 1);
    let all = test.store.read(|snapshot| snapshot.all(&ALL, args![], Sample::from_row));
    let all = all.await.map_err(|error: Error| error).expect("reads");
    assert_eq!(all[1], Sample { content: Content::default(), ..samples()[1].clone() });
}

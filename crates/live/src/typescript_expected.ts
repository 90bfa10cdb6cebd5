// Types of the back end's queries and mutations, made by `App::typescript`: do not edit.

export interface Api {
  queries: {
    /** A list of orders. */
    list_orders: {
      args: {
        /** The order before the page. */
        after?: number | null;
        state: State;
        "with-lines"?: boolean;
      };
      value: Order[];
    };
  };
  mutations: {
    clear: {
      args: Record<string, never>;
      value: null;
    };
  };
}

export type Line = {
  price: number;
};

export type Order = {
  anything: unknown;
  id: string;
  /**
   * The parts,
   * in order.
   */
  lines: Line[];
  notes: { [key: string]: number[] };
  pair: [string, number];
  parent?: Order | null;
  payment: Payment;
  states: (State | null)[];
};

export type Payment = {
  kind: "none";
} | {
  kind: "card";
  last4: string;
};

export type State = "open" | "sent_away";

// Types of the back end's queries and mutations, made by `App::typescript`: do not edit.

export interface Api {
  queries: {
    /** The counter with this id. */
    get_counter: {
      args: {
        id: number;
      };
      value: Counter;
    };
    /** Twenty counters after an id. */
    list_counters: {
      args: {
        after?: number;
      };
      value: Counter[];
    };
  };
  mutations: {
    /** Creates a counter that begins at zero. */
    create_counter: {
      args: {
        name: string;
      };
      value: Counter;
    };
    /** Adds one to a counter, of whichever user. */
    increment: {
      args: {
        id: number;
      };
      value: Counter;
    };
    /** Creates a user and signs a token for them. */
    register: {
      args: {
        name: string;
      };
      value: Registered;
    };
  };
}

/** A row. */
export type Counter = {
  id: number;
  name: string;
  value: number;
};

/** A user with their token. */
export type Registered = {
  id: string;
  name: string;
  /** For `Authorization: Bearer …`. */
  token: string;
};

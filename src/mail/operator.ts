/** Who changes something besides the API: `cli`, and the name of the system's user where it is known. */
export type Operator = {readonly actor: string; readonly user: string | null};

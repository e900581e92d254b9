import type {Knex} from 'knex';
import type {TObject, TSchema} from 'typebox';
import type {ActTools} from '../../mail/operator.ts';
import type {Vault} from '../../store/sealed.ts';
import type {InputOf, OperationContext, OperationHead, SingleOperation} from '../operation.ts';

/** A problem with a document: the path of a field, and a clause that follows its name. */
export type Problem = {readonly path: ReadonlyArray<string | number>; readonly message: string};

/** The fields that differ. `from` is `undefined` if the object is added. */
export type Fields = Readonly<Record<string, {readonly from?: unknown; readonly to: unknown}>>;

/** The result of a change, with secrets that are shown only once. `undefined` if the store has changed meanwhile. */
export type ChangeResult = {readonly id?: string; readonly key?: string; readonly signing_secret?: string} | undefined;

export type ApplyParts = {
	readonly reader: Knex;
	readonly write: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly tools: ActTools;
	readonly vault: Vault;
	/** The names that domains may not use for their links. */
	readonly ownHosts: readonly string[];
};

export type StepParts = ApplyParts & {
	readonly workspaceId: string;
	readonly context: Omit<OperationContext, 'trx'>;
	/** Performs an operation in a transaction of its own. */
	readonly perform: <Input extends TSchema, Result, Extra>(
		operation: SingleOperation<Input, Result, string, Extra>,
		input: InputOf<Input> & Extra,
	) => Promise<Result>;
};

/**
 * A noun of the document: what a file may declare about it, how its objects are read from the store, and the steps that
 * make them match. `Known` is what an existing object has beyond the fields of the schema, such as its id.
 */
export type Declaration<Schema extends TObject = TObject, Known = unknown, Section extends string = string> = {
	readonly kind: string;
	/** The name of the list in the document. */
	readonly section: Section;
	/** An object as a file declares it. Absent fields remain unchanged. */
	readonly schema: Schema;
	readonly maxItems?: number;
	/** The fields that identify an object, which therefore cannot differ. The first one is its name for people. */
	readonly key: readonly string[];
	/** Returns the form of the name for comparisons. */
	readonly toIdentity?: (name: string) => string;
	/** Whether several objects may have the same key. */
	readonly isRepeatable?: true;
	/** The other fields that cannot change. */
	readonly fixed?: readonly string[];
	/** The field with a URL that this installation must allow before an object is added. */
	readonly urlField?: string;
	/** The defaults of a new object. All other fields default to `null`. */
	readonly defaults?: Readonly<Record<string, unknown>>;
	/** The fields that an export leaves out while they have their default. */
	readonly omitted?: readonly string[];
	/** The section with the object that each item belongs to. */
	readonly parent?: {readonly section: string; nameOf(item: InputOf<Schema>): string};
	/** Whether removals come before all other changes, to make room where the number is limited. */
	readonly isRemovedFirst?: true;
	/** Whether the object has already expired, so that it is not added. `now` is in the store's format. */
	isEnded?(item: InputOf<Schema>, now: string): boolean;
	/** Reports problems with an item in its stored form that its schema does not cover. `null` means no problem. */
	check?(item: InputOf<Schema>, refuse: (field: string, problem: string | null) => void): void;
	/** Reads the existing objects of a workspace, without secrets. Those with equal keys are in order of creation. */
	read(reader: Knex, workspaceId: string, now: string): Promise<ReadonlyArray<InputOf<Schema> & Known>>;
	/** The operations that the steps perform. */
	readonly operations?: readonly OperationHead[];
	/** The steps that make the changes. */
	readonly steps: {
		add(parts: StepParts, change: {readonly declared: InputOf<Schema>}): Promise<ChangeResult>;
		change(parts: StepParts, change: Changed<InputOf<Schema>, Known>): Promise<ChangeResult>;
		remove(parts: StepParts, change: {readonly known: InputOf<Schema> & Known}): Promise<ChangeResult>;
	};
};

type Changed<Item, Known> = {readonly declared: Item; readonly known: Item & Known; readonly fields: Fields};

/** Infers the types of a declaration. */
export const declaration = <Schema extends TObject, Known, const Section extends string>(
	definition: Declaration<Schema, Known, Section>,
) => definition;

/** The maximum number of objects in a list, unless it has a limit of its own. */
export const maxItemCount = 10_000;

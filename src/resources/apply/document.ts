import type {TObject} from 'typebox';
import {Type} from '../../mail/type.ts';
import {declaredDomains} from '../domains/apply.ts';
import {declaredSenders} from '../domains/senders-apply.ts';
import {declaredKeys} from '../keys/apply.ts';
import type {InputOf} from '../operation.ts';
import {declaredTopics} from '../topics/apply.ts';
import {declaredWebhooks} from '../webhooks/apply.ts';
import {type Settings, settingsSchema} from '../workspaces/settings.ts';
import {type Declaration, maxItemCount} from './declaration.ts';

/** The only version so far. */
export const documentVersion = 1;

const declarations = [declaredDomains, declaredSenders, declaredTopics, declaredWebhooks, declaredKeys] as const;
type Noun = (typeof declarations)[number];

/** The nouns of a document, in the order in which objects are created. */
export const nouns: readonly Declaration[] = declarations;

const strict = {additionalProperties: false};
const sections = nouns.map(({section, schema, maxItems = maxItemCount}) => [
	section,
	Type.Optional(Type.Array(schema, {maxItems})),
]);
const workspace = Type.Object(
	{
		name: Type.String({format: 'label'}),
		settings: Type.Optional(settingsSchema),
		...Object.fromEntries(sections),
	},
	strict,
);

/** What `mailctl export` writes and `mailctl apply` reads (docs/guide/declared.md). Absent sections stay unchanged. */
export const documentSchema = Type.Object(
	{version: Type.Integer(), workspaces: Type.Array(workspace, {maxItems: maxItemCount})},
	strict,
);

type ItemOf<N> =
	N extends Declaration<infer Schema extends TObject, infer _Known, infer _Section> ? InputOf<Schema> : never;
type KnownOf<N> = N extends {read(...parts: never[]): Promise<ReadonlyArray<infer Known>>}
	? ItemOf<N> & Omit<Known, keyof ItemOf<N>>
	: never;

/** A workspace as a file declares it. Absent sections and fields remain unchanged. */
export type DeclaredWorkspace = {readonly name: string; readonly settings?: Partial<Settings>} & {
	readonly [N in Noun as N['section']]?: ReadonlyArray<ItemOf<N>>;
};

/** An existing workspace, with the ids of the rows. */
export type WorkspaceState = {readonly name: string; readonly settings: Settings} & {
	readonly [N in Noun as N['section']]: ReadonlyArray<KnownOf<N>>;
};

/** An object of any noun, for loops over all nouns. */
export type Item = Readonly<Record<string, unknown>>;

/** Returns the objects of a section. */
export function itemsOf(workspace: DeclaredWorkspace | WorkspaceState | undefined, section: string) {
	return (workspace as Readonly<Record<string, readonly Item[] | undefined>> | undefined)?.[section];
}

/** Returns the identifying name of an object within its noun and workspace, for people. */
export function nameOf({key: [main = '']}: Declaration, item: Item): string {
	return `${item[main]}${item.mode === 'test' ? ' (test)' : ''}`;
}

/** Returns the identifying name for comparisons. */
export function identityOf(noun: Declaration, item: Item): string {
	const name = nameOf(noun, item);
	return noun.toIdentity?.(name) ?? name;
}

import type {Static, TSchema} from 'typebox';
import {type Address, parseAddress} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {maxEndpoints} from '../../mail/webhook.ts';
import {optionalOrNull} from '../fields.ts';
import {keyFields} from '../keys/rules.ts';
import {createTopic} from '../topics/rules.ts';
import {endpointFields} from '../webhooks/rules.ts';
import {type Settings, settingsSchema} from '../workspaces/settings.ts';

/** The only version so far. */
export const documentVersion = 1;

const maxItemCount = 10_000;
const maxTextLength = 2000;

const flag = Type.Optional(Type.Boolean());
const text = Type.String({maxLength: maxTextLength});
const label = Type.String({format: 'label'});
const mode = Type.Optional(Type.Enum(['live', 'test']));
const strict = {additionalProperties: false};

const domain = Type.Object(
	{name: text, return_path_domain: optionalOrNull(text), link_host: optionalOrNull(text)},
	strict,
);
const sender = Type.Object(
	{address: Type.String({format: 'email'}), name: optionalOrNull(label), verified: flag, active: flag},
	strict,
);
const webhook = Type.Object({...endpointFields, mode, active: flag}, strict);
const key = Type.Object(keyFields, strict);

const workspace = Type.Object(
	{
		name: label,
		settings: Type.Optional(settingsSchema),
		domains: Type.Optional(Type.Array(domain, {maxItems: maxItemCount})),
		senders: Type.Optional(Type.Array(sender, {maxItems: maxItemCount})),
		topics: Type.Optional(Type.Array(createTopic.input, {maxItems: maxItemCount})),
		webhooks: Type.Optional(Type.Array(webhook, {maxItems: maxEndpoints})),
		keys: Type.Optional(Type.Array(key, {maxItems: maxItemCount})),
	},
	strict,
);

/** What `mailctl export` writes and `mailctl apply` reads (docs/guide/declared.md). Absent sections stay unchanged. */
export const documentSchema = Type.Object(
	{version: Type.Integer(), workspaces: Type.Array(workspace, {maxItems: maxItemCount})},
	strict,
);

/** The type of a schema with all fields required except those in `Absent`. */
type Complete<Schema extends TSchema, Absent extends keyof Static<Schema> = never> = Readonly<
	Required<Omit<Static<Schema>, Absent>> & Pick<Static<Schema>, Absent>
>;

/** An existing object of each kind. */
export type Items = {
	readonly domain: Complete<typeof domain, 'link_host'>;
	/** `verified` means that an operator verified the sender, regardless of DNS. */
	readonly sender: Complete<typeof sender>;
	/** Absent fields are `false` or `null`. */
	readonly topic: Complete<typeof createTopic.input, 'public' | 'required' | 'description' | 'priority'>;
	/** Absent fields are `default`. */
	readonly webhook: Complete<typeof webhook, 'format' | 'retry'>;
	/** `expires_at` is in the store's format. */
	readonly key: Complete<typeof key>;
};
export type Kind = keyof Items;

/** The section of each kind, in the order in which objects are created. */
export const sections = {
	domain: 'domains',
	sender: 'senders',
	topic: 'topics',
	webhook: 'webhooks',
	key: 'keys',
} as const satisfies Record<Kind, string>;
export const kinds = Object.keys(sections) as readonly Kind[];

type With<Item, Fields extends keyof Item> = Partial<Item> & Pick<Item, Fields>;

/** An object as a file declares it. Absent fields remain unchanged. */
export type DeclaredItems = {
	readonly domain: With<Items['domain'], 'name'>;
	readonly sender: With<Items['sender'], 'address'>;
	readonly topic: Items['topic'];
	readonly webhook: With<Items['webhook'], 'url' | 'mode' | 'events'>;
	readonly key: With<Items['key'], 'name' | 'mode'>;
};

type Sections<Each extends Record<Kind, unknown>> = {
	readonly [K in Kind as (typeof sections)[K]]: ReadonlyArray<Each[K]>;
};

/** An existing workspace, and one as a file declares it. Absent sections remain unchanged. */
export type WorkspaceItems = {readonly name: string; readonly settings: Settings} & Sections<Items>;
export type DeclaredWorkspace = {readonly name: string; readonly settings?: Partial<Settings>} & Partial<
	Sections<DeclaredItems>
>;

/** Returns the identifying name of an object within its kind and workspace, for people. */
export function nameOf(item: DeclaredItems[Kind]): string {
	const {name, address, code, url, mode} = item as Partial<Record<string, string>>;
	return `${address ?? code ?? url ?? name}${mode === 'test' ? ' (test)' : ''}`;
}

/** Returns the identifying name for comparisons, in which addresses are normalized. */
export function identityOf(kind: Kind, item: DeclaredItems[Kind]): string {
	const name = nameOf(item);
	return kind === 'sender' ? (toAddress(name)?.key ?? name) : name;
}

/** Returns the domain of a sender's address, as in `domains`. */
export function domainOf(address: string): string {
	return toAddress(address)?.domain ?? '';
}

/** Returns `undefined` for an invalid address, which the schema rejects. */
export function toAddress(text: string): Address | undefined {
	const parsed = parseAddress(text, {allowsUtf8Local: false});
	return parsed.ok ? parsed.address : undefined;
}

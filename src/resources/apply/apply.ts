import type {Knex} from 'knex';
import {generateSigningKeys} from '../../compose/dkim.ts';
import {maskPasswords} from '../../config/parsers.ts';
import {defined} from '../../kit/collections.ts';
import type {ActTools} from '../../mail/operator.ts';
import {hasPassword, withPasswords} from '../../mail/route.ts';
import type {Vault} from '../../store/sealed.ts';
import {addDomain, removeDomain} from '../domains/domains.ts';
import {changeLinkHost} from '../domains/link-host.ts';
import {addSender, changeSender, prepareKeys, removeSender, type SenderChange} from '../domains/senders.ts';
import {findDomain, findSender, type Sender} from '../domains/store.ts';
import {changeKey, createKey, revokeKey} from '../keys/rules.ts';
import {type OperationContext, performIn, Refused} from '../operation.ts';
import {createTopic, removeTopic, updateTopic} from '../topics/rules.ts';
import {addEndpoint, changeEndpoint, disableEndpoint, enableEndpoint, removeEndpoint} from '../webhooks/rules.ts';
import {LimitReached} from '../workspaces/limits.ts';
import {changeWorkspace, createWorkspace, type WorkspaceInput} from '../workspaces/rules.ts';
import type {Settings} from '../workspaces/settings.ts';
import {findWorkspaceByName, type Workspace} from '../workspaces/store.ts';
import {
	type DeclaredItems,
	type DeclaredWorkspace,
	domainOf,
	identityOf,
	type Kind,
	kinds,
	nameOf,
	sections,
	toAddress,
} from './document.ts';
import type {Problem} from './read-document.ts';
import type {Known, WorkspaceState} from './state.ts';

/** The fields that differ. `from` is `undefined` if the object is added. */
type Fields = Readonly<Record<string, {readonly from?: unknown; readonly to: unknown}>>;

type ChangeSummary = {readonly workspace: string; readonly name: string; readonly fields: Fields};

type Changes<K extends Kind> = ChangeSummary & {readonly kind: K} & (
		| {readonly action: 'add'; readonly declared: DeclaredItems[K]}
		| {readonly action: 'change'; readonly declared: DeclaredItems[K]; readonly known: Known[K]}
		| {readonly action: 'remove'; readonly known: Known[K]}
	);

/** One step from the current to the declared state. Each step runs in its own transaction. */
export type Change =
	| (ChangeSummary & {
			readonly kind: 'workspace';
			readonly action: 'add' | 'change';
			readonly declared: Partial<Settings>;
	  })
	| {[K in Kind]: Changes<K>}[Kind];

type Difference = {readonly changes: readonly Change[]; readonly problems: readonly Problem[]};

type Rules = {
	/** The current time in the store's format. Keys that have expired are not created. */
	readonly now: string;
	/** Returns the problem with the URL of a new endpoint, or `null`. */
	readonly urlProblem: (url: string) => string | null;
};

/**
 * Returns the changes that turn a workspace into the one that a file declares, in the order in which they can be made.
 * `state` is `undefined` if the workspace does not exist. The paths of faults are relative to the workspace.
 *
 * `src/resources/apply` implements `mailctl apply` and `mailctl export`: it reads a file, compares it with the store and makes
 * the changes. It relies on `src/resources`, `src/resources` and `src/resources/domains` to change anything. It never touches a section or
 * field that the file leaves out, and never exports a secret.
 */
export function differences(state: WorkspaceState | undefined, declared: DeclaredWorkspace, rules: Rules): Difference {
	const {name: workspace, settings = {}} = declared;
	const problems: Problem[] = [];
	const fields = diffFields(flat(settings), state && flat(state.settings));
	const differing = Object.entries(settings).filter(
		([field]) => field === 'branding' || Object.hasOwn(fields, field),
	);
	const head = {
		workspace,
		kind: 'workspace',
		name: workspace,
		fields,
		declared: Object.fromEntries(differing),
	} as const;
	const first: Change[] = state
		? Object.keys(fields).length > 0
			? [{...head, action: 'change'}]
			: []
		: [{...head, action: 'add'}];
	if (settings.route?.includes(':***@') && settings.route !== state?.settings.route) {
		problems.push({
			path: ['settings', 'route'],
			message: 'has a masked password: enter the password, or omit route',
		});
	}
	const topic = settings.default_topic;
	if (
		topic &&
		Object.hasOwn(fields, 'default_topic') &&
		!(declared.topics ?? state?.topics ?? []).some(({code}) => code === topic)
	) {
		problems.push({path: ['settings', 'default_topic'], message: `requires ${topic} in topics`});
	}
	const all = kinds.flatMap(kind => findChanges(kind, state, declared));
	for (const change of all) {
		problems.push(...findProblems(change, state, declared, rules));
	}
	const updates = all.filter(change => change.action !== 'remove' && !isEnded(change, rules.now));
	const removed = all.filter(({action}) => action === 'remove').toReversed();
	// Endpoints are removed first to make room, because their number is limited.
	const room = removed.filter(({kind}) => kind === 'webhook');
	return {changes: [...first, ...room, ...updates, ...removed.filter(({kind}) => kind !== 'webhook')], problems};
}

function findChanges<K extends Kind>(kind: K, state: WorkspaceState | undefined, file: DeclaredWorkspace): Change[] {
	const section = file[sections[kind]] as ReadonlyArray<DeclaredItems[K]> | undefined;
	if (section === undefined) {
		return [];
	}
	const known = byIdentity(
		kind,
		(state?.[sections[kind]] ?? []) as unknown as ReadonlyArray<Known[K] & DeclaredItems[K]>,
	);
	const declared = byIdentity(kind, section);
	const changes: Array<Changes<K>> = [];
	for (const [identity, item] of declared) {
		const before = known.get(identity);
		const fields = diffFields(item, before);
		const summary = {workspace: file.name, kind, name: nameOf(item), fields};
		if (!before) {
			changes.push({...summary, action: 'add', declared: item});
		} else if (Object.keys(fields).length > 0) {
			changes.push({...summary, action: 'change', declared: item, known: before});
		}
	}
	for (const [identity, item] of known) {
		if (!declared.has(identity)) {
			changes.push({workspace: file.name, kind, name: nameOf(item), fields: {}, action: 'remove', known: item});
		}
	}
	return changes as Change[];
}

/** Indexes items by their identity. A URL that is registered several times gets a suffix for each repetition. */
function byIdentity<K extends Kind, Item extends DeclaredItems[K]>(kind: K, items: readonly Item[]): Map<string, Item> {
	const indexed = new Map<string, Item>();
	for (const item of items) {
		let identity = identityOf(kind, item);
		while (indexed.has(identity)) {
			identity += ' again';
		}
		indexed.set(identity, item);
	}
	return indexed;
}

/** The defaults of a new object. All other fields default to `null`. */
const fieldDefaults: Readonly<Record<string, unknown>> = {
	active: true,
	verified: false,
	public: false,
	required: false,
	track_opens: false,
	track_clicks: false,
	format: 'default',
	retry: 'default',
};

/** Fields that identify an object and therefore cannot differ. */
const identifying = new Set(['mode', 'url', 'address', 'code']);

function diffFields(declared: object, before: object | undefined): Fields {
	const known = before as Readonly<Record<string, unknown>> | undefined;
	const isNamed = !('address' in declared || 'code' in declared);
	return Object.fromEntries(
		Object.entries(declared).flatMap(([field, to]) => {
			const from = known?.[field];
			const isSame = known ? JSON.stringify(from) === JSON.stringify(to) : to === (fieldDefaults[field] ?? null);
			const isFixed = identifying.has(field) || (field === 'name' && isNamed);
			return to === undefined || isSame || isFixed
				? []
				: [[field, known ? {from, to: masked(to)} : {to: masked(to)}]];
		}),
	);
}

/** Masks passwords, which a route may contain. */
const masked = (value: unknown) => (typeof value === 'string' && value.includes('://') ? maskPasswords(value) : value);

function flat({branding, ...settings}: Partial<Settings>): object {
	const brandingFields = Object.entries(branding ?? {}).map(([name, value]) => [`branding.${name}`, value]);
	return {...settings, ...Object.fromEntries(brandingFields)};
}

/** Whether a change would create a key that has already expired. */
function isEnded({kind, action, ...change}: Change, now: string): boolean {
	const {declared} = change as {declared?: DeclaredItems['key']};
	return kind === 'key' && action === 'add' && (declared?.expires_at ?? now) < now;
}

function findProblems(
	change: Change,
	state: WorkspaceState | undefined,
	file: DeclaredWorkspace,
	{urlProblem}: Rules,
): readonly Problem[] {
	if (change.kind === 'domain' && change.action === 'change' && Object.hasOwn(change.fields, 'return_path_domain')) {
		const path = ['domains', file.domains?.indexOf(change.declared) ?? 0, 'return_path_domain'];
		return [{path, message: 'cannot change: remove the domain and add it again'}];
	}
	if (change.kind === 'domain' && change.action === 'remove') {
		const {name} = change.known;
		const left = (file.senders ?? state?.senders ?? []).find(({address}) => domainOf(address) === name);
		return left ? [{path: ['domains'], message: `must include ${name}, the domain of ${left.address}`}] : [];
	}
	if (change.kind === 'webhook' && change.action === 'add') {
		const problem = urlProblem(change.declared.url);
		return problem === null
			? []
			: [{path: ['webhooks', file.webhooks?.indexOf(change.declared) ?? 0, 'url'], message: problem}];
	}
	return [];
}

type ApplyParts = {
	readonly reader: Knex;
	readonly write: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly tools: ActTools;
	readonly vault: Vault;
	/** Names that no domain may use for its links. */
	readonly ownHosts: readonly string[];
};

/** The result of a change, with secrets that are shown only once. `undefined` if the store has changed in between. */
export type ChangeResult = {readonly id?: string; readonly key?: string; readonly signing_secret?: string} | undefined;

type Of<K> = Extract<Change, {readonly kind: K}>;

/** Performs one change. */
export async function perform(parts: ApplyParts, change: Change): Promise<ChangeResult> {
	return await performChange(parts, change).catch(undefinedIfRefused);
}

function undefinedIfRefused(error: unknown): undefined {
	// `LimitReached` is thrown too, because applying the file again would not help.
	if (!(error instanceof Refused) || error instanceof LimitReached) {
		throw error;
	}
}

async function performChange(parts: ApplyParts, change: Change): Promise<ChangeResult> {
	const {reader, write, tools, vault} = parts;
	if (change.kind === 'workspace' && change.action === 'add') {
		const input = {...toInput(change.declared, vault), name: change.name};
		return await write(trx => createWorkspace(trx, tools, input));
	}
	const workspaceId = (await findWorkspaceByName(reader, change.workspace))?.id;
	if (workspaceId === undefined) {
		return undefined;
	}
	const context = {face: 'apply', workspaceId, mode: 'live', tools, vault: async () => vault} as const;
	switch (change.kind) {
		case 'workspace':
			return await write(trx => changeWorkspace(trx, tools, workspaceId, toInput(change.declared, vault)));
		case 'domain':
			return await performDomain(parts, workspaceId, change);
		case 'sender':
			return await performSender(parts, workspaceId, change);
		case 'topic':
			return await write(trx => performTopic({...context, trx}, change));
		case 'webhook':
			return await write(trx => performWebhook({...context, trx}, change));
		case 'key':
			return await write(trx => performKey({...context, trx}, change));
	}
}

/**
 * Masks the passwords of the declared route if it equals the stored one, as in the state that it is compared with. Only
 * the vault can tell whether a password differs.
 */
export function withKnownRoute(
	declared: DeclaredWorkspace,
	row: Workspace | undefined,
	vault: Vault,
): DeclaredWorkspace {
	const {route} = declared.settings ?? {};
	if (!row?.route || !route || !hasPassword(route)) {
		return declared;
	}
	const stored = withPasswords(row.route, sealed => vault.open(row.id, sealed));
	const isKnown = stored === withPasswords(route, password => password);
	return isKnown ? {...declared, settings: {...declared.settings, route: maskPasswords(route)}} : declared;
}

/** Returns the input for a workspace change. Absent fields remain unchanged. */
function toInput(settings: Partial<Settings>, vault: Vault): Partial<WorkspaceInput> {
	const {route, ...plain} = settings;
	return {...plain, ...(route !== undefined && {route: route === null ? null : {text: route, vault}})};
}

async function performDomain(
	{reader, write, tools, vault, ownHosts}: ApplyParts,
	workspaceId: string,
	change: Of<'domain'>,
): Promise<ChangeResult> {
	if (change.action === 'add') {
		const keys = await generateSigningKeys();
		const {name, return_path_domain: returnPathDomain = null, link_host: host} = change.declared;
		const links = host ? {host, ownHosts} : null;
		const input = {workspaceId, name, returnPathDomain, links, keys};
		return (await write(trx => addDomain(trx, tools, vault, input)))?.domain;
	}
	const row = await findDomain(reader, workspaceId, change.name);
	if (change.action === 'change') {
		const {link_host: host = null} = change.declared;
		return row && (await write(trx => changeLinkHost(trx, tools, row, host, ownHosts)));
	}
	return row && (await write(trx => removeDomain(trx, tools, row))) === undefined ? {} : undefined;
}

async function performSender(
	{reader, write, tools, vault}: ApplyParts,
	workspaceId: string,
	change: Of<'sender'>,
): Promise<ChangeResult> {
	const address = toAddress(change.name);
	if (!address) {
		return undefined;
	}
	if (change.action === 'remove') {
		return (await write(trx => removeSender(trx, tools, workspaceId, {addressKey: address.key}))) ? {} : undefined;
	}
	const {name, verified, active} = change.fields;
	const switched: SenderChange[] = active ? [active.to ? 'enable' : 'disable'] : [];
	if (change.action === 'add') {
		const newKeys = await prepareKeys(reader, workspaceId, address.domain);
		const input = {
			workspaceId,
			address,
			name: change.declared.name ?? null,
			verified: change.declared.verified ?? false,
		};
		return await write(async trx => {
			const added = await addSender(trx, tools, vault, {...input, newKeys});
			return added && (await changeInTurn(trx, tools, added, switched));
		});
	}
	const steps: SenderChange[] = [
		...(name ? [{name: change.declared.name ?? null}] : []),
		...(verified ? [verified.to ? ('verify' as const) : ('unverify' as const)] : []),
		...switched,
	];
	return await write(async trx => {
		const sender = await findSender(trx, workspaceId, address.key);
		return sender && (await changeInTurn(trx, tools, sender, steps));
	});
}

async function changeInTurn(
	trx: Knex.Transaction,
	tools: ActTools,
	{id, workspace_id: workspaceId, address_key: addressKey}: Sender,
	steps: readonly SenderChange[],
): Promise<ChangeResult> {
	for (const step of steps) {
		await changeSender(trx, tools, workspaceId, addressKey, step);
	}
	return {id};
}

async function performTopic(context: OperationContext, change: Of<'topic'>): Promise<ChangeResult> {
	switch (change.action) {
		case 'add':
			return await performIn(createTopic, context, change.declared);
		case 'change':
			return await performIn(updateTopic, context, change.declared);
		case 'remove':
			return await performIn(removeTopic, context, {code: change.name});
	}
}

async function performWebhook(context: OperationContext, change: Of<'webhook'>): Promise<ChangeResult> {
	if (change.action === 'remove') {
		await performIn(removeEndpoint, context, {id: change.known.id});
		return {};
	}
	const {url, mode, events, format, retry} = change.declared;
	const {active, ...fields} = change.fields;
	const input = {events, ...defined({format, retry})};
	const setActive = async (id: string) => {
		if (active) {
			await performIn(active.to === true ? enableEndpoint : disableEndpoint, context, {id});
		}
	};
	if (change.action === 'add') {
		const {id, secret} = await performIn(addEndpoint, {...context, mode}, {...input, url});
		await setActive(id);
		return {id, signing_secret: (await context.vault()).open(id, secret)};
	}
	const {id} = change.known;
	if (Object.keys(fields).length > 0) {
		await performIn(changeEndpoint, context, {...input, id});
	}
	await setActive(id);
	return {id};
}

async function performKey(context: OperationContext, change: Of<'key'>): Promise<ChangeResult> {
	if (change.action === 'remove') {
		for (const id of change.known.ids) {
			await performIn(revokeKey, context, {id}).catch(undefinedIfRefused);
		}
		return {};
	}
	if (change.action === 'change') {
		const {scopes, rate_limit, expires_at} = change.declared;
		const [id] = change.known.ids;
		return await performIn(changeKey, context, {id, ...defined({scopes, rate_limit, expires_at})});
	}
	const {row, key} = await performIn(createKey, context, change.declared);
	return {id: row.id, key};
}

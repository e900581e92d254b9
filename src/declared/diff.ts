import {maskPasswords} from '../config/parsers.ts';
import {
	domainOf,
	identityOf,
	type Kind,
	kinds,
	nameOf,
	type Settings,
	sections,
	type Wanted,
	type WantedWorkspace,
} from './document.ts';
import type {Fault} from './read-document.ts';
import type {Known, WorkspaceState} from './state.ts';

/** Fields that differ. `from` is undefined where the thing is added. */
type Fields = Readonly<Record<string, {readonly from?: unknown; readonly to: unknown}>>;

type Shown = {readonly workspace: string; readonly name: string; readonly fields: Fields};

type Changes<K extends Kind> = Shown & {readonly kind: K} & (
		| {readonly action: 'add'; readonly wanted: Wanted[K]}
		| {readonly action: 'change'; readonly wanted: Wanted[K]; readonly known: Known[K]}
		| {readonly action: 'remove'; readonly known: Known[K]}
	);

/** One step from what is there to what is wanted; each is done by itself. */
export type Change =
	| (Shown & {readonly kind: 'workspace'; readonly action: 'add' | 'change'; readonly wanted: Partial<Settings>})
	| {[K in Kind]: Changes<K>}[Kind];

type Difference = {readonly changes: readonly Change[]; readonly faults: readonly Fault[]};

type Rules = {
	/** The time in the store's form: a key that has ended by then is not made. */
	readonly now: string;
	/** What is wrong with the URL of a new endpoint; null: nothing. */
	readonly urlFault: (url: string) => string | null;
};

/**
 * What turns a workspace (undefined: a new one) into the one that a file wants, in the order in which it can be done.
 * The paths of faults begin in the workspace.
 */
export function differences(state: WorkspaceState | undefined, wanted: WantedWorkspace, rules: Rules): Difference {
	const {name: workspace, settings = {}} = wanted;
	const faults: Fault[] = [];
	const fields = fieldsOf(flat(settings), state && flat(state.settings));
	const differing = Object.entries(settings).filter(([field]) => field === 'branding' || Object.hasOwn(fields, field));
	const head = {workspace, kind: 'workspace', name: workspace, fields, wanted: Object.fromEntries(differing)} as const;
	const first: Change[] = state
		? Object.keys(fields).length > 0
			? [{...head, action: 'change'}]
			: []
		: [{...head, action: 'add'}];
	if (settings.route?.includes(':***@') && settings.route !== state?.settings.route) {
		faults.push({
			path: ['settings', 'route'],
			message: 'has a masked password: write the password, or leave route out',
		});
	}
	const all = kinds.flatMap(kind => changesOf(kind, state, wanted));
	for (const change of all) {
		faults.push(...faultsOf(change, state, wanted, rules));
	}
	const made = all.filter(change => change.action !== 'remove' && !isEnded(change, rules.now));
	const removed = all.filter(({action}) => action === 'remove').toReversed();
	// A workspace may have 50 endpoints: those that go make room.
	const room = removed.filter(({kind}) => kind === 'webhook');
	return {changes: [...first, ...room, ...made, ...removed.filter(({kind}) => kind !== 'webhook')], faults};
}

function changesOf<K extends Kind>(kind: K, state: WorkspaceState | undefined, file: WantedWorkspace): Change[] {
	const section = file[sections[kind]] as ReadonlyArray<Wanted[K]> | undefined;
	if (section === undefined) {
		return [];
	}
	const known = byIdentity(kind, (state?.[sections[kind]] ?? []) as unknown as ReadonlyArray<Known[K] & Wanted[K]>);
	const wanted = byIdentity(kind, section);
	const changes: Array<Changes<K>> = [];
	for (const [identity, item] of wanted) {
		const before = known.get(identity);
		const fields = fieldsOf(item, before);
		const shown = {workspace: file.name, kind, name: nameOf(item), fields};
		if (!before) {
			changes.push({...shown, action: 'add', wanted: item});
		} else if (Object.keys(fields).length > 0) {
			changes.push({...shown, action: 'change', wanted: item, known: before});
		}
	}
	for (const [identity, item] of known) {
		if (!wanted.has(identity)) {
			changes.push({workspace: file.name, kind, name: nameOf(item), fields: {}, action: 'remove', known: item});
		}
	}
	return changes as Change[];
}

/** A URL that is registered several times is identified by its number. */
function byIdentity<K extends Kind, Item extends Wanted[K]>(kind: K, items: readonly Item[]): Map<string, Item> {
	const found = new Map<string, Item>();
	for (const item of items) {
		let identity = identityOf(kind, item);
		while (found.has(identity)) {
			identity += ' again';
		}
		found.set(identity, item);
	}
	return found;
}

/** What a new thing has that nothing was said of; null otherwise. */
const usual: Readonly<Record<string, unknown>> = {
	active: true,
	verified: false,
	track_opens: false,
	track_clicks: false,
};

/** The identifying field is not one that could differ. */
const identifying = new Set(['mode', 'url', 'address', 'code']);

function fieldsOf(wanted: object, before: object | undefined): Fields {
	const known = before as Readonly<Record<string, unknown>> | undefined;
	const isNamed = !('address' in wanted || 'code' in wanted);
	return Object.fromEntries(
		Object.entries(wanted).flatMap(([field, to]) => {
			const from = known?.[field];
			const isSame = known ? JSON.stringify(from) === JSON.stringify(to) : to === (usual[field] ?? null);
			const isFixed = identifying.has(field) || (field === 'name' && isNamed);
			return to === undefined || isSame || isFixed ? [] : [[field, known ? {from, to: shown(to)} : {to: shown(to)}]];
		}),
	);
}

/** A route may hold a password. */
const shown = (value: unknown) => (typeof value === 'string' && value.includes('://') ? maskPasswords(value) : value);

function flat({branding, ...settings}: Partial<Settings>): object {
	const looks = Object.entries(branding ?? {}).map(([name, value]) => [`branding.${name}`, value]);
	return {...settings, ...Object.fromEntries(looks)};
}

/** A key that a file made, and that has ended since. */
function isEnded({kind, action, ...change}: Change, now: string): boolean {
	const {wanted} = change as {wanted?: Wanted['key']};
	return kind === 'key' && action === 'add' && (wanted?.expires_at ?? now) < now;
}

function faultsOf(
	change: Change,
	state: WorkspaceState | undefined,
	file: WantedWorkspace,
	{urlFault}: Rules,
): readonly Fault[] {
	if (change.kind === 'domain' && change.action === 'change') {
		const path = ['domains', file.domains?.indexOf(change.wanted) ?? 0, 'return_path_domain'];
		return [{path, message: 'cannot change: remove the domain and add it again'}];
	}
	if (change.kind === 'domain' && change.action === 'remove') {
		const {name} = change.known;
		const left = (file.senders ?? state?.senders ?? []).find(({address}) => domainOf(address) === name);
		return left ? [{path: ['domains'], message: `must have ${name}, the domain of ${left.address}`}] : [];
	}
	if (change.kind === 'webhook' && change.action === 'add') {
		const fault = urlFault(change.wanted.url);
		return fault === null
			? []
			: [{path: ['webhooks', file.webhooks?.indexOf(change.wanted) ?? 0, 'url'], message: fault}];
	}
	return [];
}

import {maskPasswords} from '../../config/parsers.ts';
import {performIn, Refused} from '../operation.ts';
import {applySettings, flatSettings, settingDefaults, settingProblems} from '../workspaces/apply.ts';
import {LimitReached} from '../workspaces/limits.ts';
import {findWorkspaceByName} from '../workspaces/store.ts';
import type {ApplyParts, ChangeResult, Declaration, Fields, Problem, StepParts} from './declaration.ts';
import {
	type DeclaredWorkspace,
	type Item,
	identityOf,
	itemsOf,
	nameOf,
	nouns,
	type WorkspaceState,
} from './document.ts';

/** One step from the current to the declared state. Each step runs in its own transaction. */
export type Change = {
	readonly workspace: string;
	readonly kind: string;
	/** `null` for the workspace itself. */
	readonly noun: Declaration | null;
	readonly action: 'add' | 'change' | 'remove';
	readonly name: string;
	readonly fields: Fields;
	/** The object as the file declares it; empty if it is removed. */
	readonly declared: Item;
	/** The existing object; empty if it is added. */
	readonly known: Item;
};
type ItemChange = Change & {readonly noun: Declaration};

type Difference = {readonly changes: readonly Change[]; readonly problems: readonly Problem[]};

type Rules = {
	/** The current time in the store's format. Keys that have expired are not created. */
	readonly now: string;
	/** Returns the problem with the URL of a new endpoint, or `null`. */
	readonly urlProblem: (url: string) => string | null;
};

/**
 * Returns the changes that turn a workspace into the one that a file declares, in the order in which they can be made.
 * `state` is `undefined` if the workspace does not exist. The paths of problems are relative to the workspace.
 *
 * `src/resources/apply` implements `mailctl apply` and `mailctl export`: it reads a file, compares it with the store
 * and makes the changes. It loops over the nouns that declare what a file may say of them (declaration.ts) and relies
 * on their operations to change anything. It never touches a section or field that the file leaves out, and never
 * exports a secret.
 */
export function differences(state: WorkspaceState | undefined, file: DeclaredWorkspace, rules: Rules): Difference {
	const itemsAfter = (section: string) => itemsOf(file, section) ?? itemsOf(state, section) ?? [];
	const topics = itemsAfter('topics').map(({code}) => code);
	const itemChanges = nouns.flatMap(noun => findChanges(noun, state, file, rules.now));
	const problems = [
		...settingProblems(file, state?.settings, topics),
		...itemChanges.flatMap(change => findProblems(change, file, itemsAfter, rules)),
	];
	const updates = itemChanges.filter(({action}) => action !== 'remove');
	const removals = itemChanges.filter(({action}) => action === 'remove').toReversed();
	const isRemovedFirst = ({noun}: ItemChange) => noun.isRemovedFirst === true;
	return {
		changes: [
			...diffSettings(state, file),
			...removals.filter(isRemovedFirst),
			...updates,
			...removals.filter(change => !isRemovedFirst(change)),
		],
		problems,
	};
}

function diffSettings(state: WorkspaceState | undefined, {name, settings = {}}: DeclaredWorkspace): readonly Change[] {
	const before = state && flatSettings(state.settings);
	const fields = diffFields(flatSettings(settings), before, {defaults: settingDefaults});
	const action = state ? 'change' : 'add';
	const isDifferent = (field: string) => field === 'branding' || Object.hasOwn(fields, field);
	const declared = Object.fromEntries(Object.entries(settings).filter(([field]) => isDifferent(field)));
	const isSame = state && Object.keys(fields).length === 0;
	return isSame ? [] : [{workspace: name, kind: 'workspace', noun: null, action, name, fields, declared, known: {}}];
}

function findChanges(
	noun: Declaration,
	state: WorkspaceState | undefined,
	file: DeclaredWorkspace,
	now: string,
): ItemChange[] {
	const section = itemsOf(file, noun.section);
	if (section === undefined) {
		return [];
	}
	const summary = (item: Item) => ({workspace: file.name, kind: noun.kind, noun, name: nameOf(noun, item)});
	const existing = byIdentity(noun, itemsOf(state, noun.section) ?? []);
	const requested = byIdentity(noun, section);
	const changes: ItemChange[] = [];
	for (const [identity, declared] of requested) {
		const known = existing.get(identity);
		const fields = diffFields(declared, known, noun);
		if (known ? Object.keys(fields).length > 0 : !noun.isEnded?.(declared, now)) {
			const action = known ? 'change' : 'add';
			changes.push({...summary(declared), action, fields, declared, known: known ?? {}});
		}
	}
	for (const [identity, known] of existing) {
		if (!requested.has(identity)) {
			changes.push({...summary(known), action: 'remove', fields: {}, declared: {}, known});
		}
	}
	return changes;
}

/** Indexes items by their identity. An identity that occurs several times gets a suffix for each repetition. */
function byIdentity(noun: Declaration, items: readonly Item[]): Map<string, Item> {
	const indexed = new Map<string, Item>();
	for (const item of items) {
		let identity = identityOf(noun, item);
		while (indexed.has(identity)) {
			identity += ' again';
		}
		indexed.set(identity, item);
	}
	return indexed;
}

function diffFields(
	declared: object,
	before: object | undefined,
	{defaults = {}, key = []}: Partial<Declaration>,
): Fields {
	const known = before as Item | undefined;
	return Object.fromEntries(
		Object.entries(declared).flatMap(([field, to]) => {
			const from = known?.[field];
			const isSame = known ? JSON.stringify(from) === JSON.stringify(to) : to === (defaults[field] ?? null);
			const isSkipped = to === undefined || isSame || key.includes(field);
			return isSkipped ? [] : [[field, known ? {from, to: masked(to)} : {to: masked(to)}]];
		}),
	);
}

/** Masks passwords, which a route may contain. */
const masked = (value: unknown) => (typeof value === 'string' && value.includes('://') ? maskPasswords(value) : value);

function findProblems(
	change: ItemChange,
	file: DeclaredWorkspace,
	itemsAfter: (section: string) => readonly Item[],
	{urlProblem}: Rules,
): readonly Problem[] {
	const {noun, kind, name, fields} = change;
	const {section, urlField = '', fixed = []} = noun;
	if (change.action === 'remove') {
		const [dependent] = nouns
			.filter(({parent}) => parent?.section === section)
			.flatMap(child => {
				const items = itemsAfter(child.section).filter(item => child.parent?.nameOf(item) === name);
				return items.map(item => nameOf(child, item));
			});
		const message = `must include ${name}, the ${kind} of ${dependent}`;
		return dependent === undefined ? [] : [{path: [section], message}];
	}
	const pathTo = (field: string) => [section, itemsOf(file, section)?.indexOf(change.declared) ?? 0, field];
	if (change.action === 'change') {
		const message = `cannot change: remove the ${kind} and add it again`;
		return fixed.filter(field => Object.hasOwn(fields, field)).map(field => ({path: pathTo(field), message}));
	}
	const problem = urlField === '' ? null : urlProblem(String(change.declared[urlField]));
	return problem === null ? [] : [{path: pathTo(urlField), message: problem}];
}

/** Performs one change. Returns `undefined` if the store has changed since the comparison. */
export async function perform(parts: ApplyParts, change: Change): Promise<ChangeResult> {
	try {
		return await performChange(parts, change);
	} catch (error) {
		// `LimitReached` is thrown too, because applying the file again would not help.
		if (!(error instanceof Refused) || error instanceof LimitReached) {
			throw error;
		}
		return undefined;
	}
}

async function performChange(parts: ApplyParts, change: Change): Promise<ChangeResult> {
	const {reader, write, tools, vault} = parts;
	const {noun, action, name, declared} = change;
	const workspaceId = (await findWorkspaceByName(reader, change.workspace))?.id;
	const isNew = noun === null && action === 'add';
	if (isNew !== (workspaceId === undefined)) {
		return undefined;
	}
	if (noun === null || workspaceId === undefined) {
		return await applySettings(parts, name, declared, workspaceId);
	}
	const context = {face: 'apply', workspaceId, mode: 'live', tools, vault: async () => vault} as const;
	const stepParts: StepParts = {
		...parts,
		workspaceId,
		context,
		perform: (operation, input) => write(trx => performIn(operation, {...context, trx}, input)),
	};
	return await noun.steps[action](stepParts, change);
}

import type {Knex} from 'knex';
import {toSettings} from '../workspaces/settings.ts';
import type {Workspace} from '../workspaces/store.ts';
import type {Declaration} from './declaration.ts';
import {type DeclaredWorkspace, type Item, itemsOf, nouns, type WorkspaceState} from './document.ts';

/** Reads the state of a workspace, sorted by name and without secrets. `now` is in the store's format. */
export async function readState(reader: Knex, row: Workspace, now: string): Promise<WorkspaceState> {
	const sections: Record<string, readonly Item[]> = {};
	for (const noun of nouns) {
		const items = (await noun.read(reader, row.id, now)) as readonly Item[];
		sections[noun.section] = sorted(items, item => noun.key.map(field => item[field]).join(' '));
	}
	return {name: row.name, settings: toSettings(row), ...sections} as WorkspaceState;
}

/** Returns a state without the fields that an export omits. */
export function toDeclared(state: WorkspaceState): DeclaredWorkspace {
	const sections = nouns.map(noun => [
		noun.section,
		(itemsOf(state, noun.section) ?? []).map(item => declaredItem(noun, item)),
	]);
	return {...state, ...Object.fromEntries(sections)};
}

function declaredItem({schema, omitted = [], defaults = {}}: Declaration, item: Item): Item {
	const isShown = (field: string, value: unknown) =>
		Object.hasOwn(schema.properties, field) &&
		!(omitted.includes(field) && (value ?? null) === (defaults[field] ?? null));
	return Object.fromEntries(Object.entries(item).filter(([field, value]) => isShown(field, value)));
}

/** Sorts by code units, so that the order is the same in both databases. Equal items remain in order of creation. */
function sorted<Value>(items: readonly Value[], by: (item: Value) => string): Value[] {
	return items.toSorted((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
}

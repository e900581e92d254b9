import type {Knex} from 'knex';
import {dayMs, storeTime} from '../../kit/time.ts';
import {idFloor} from '../../mail/ids.ts';
import type {ActTools} from '../../mail/operator.ts';
import {listSenders} from '../../resources/domains/store.ts';
import {lookUpTemplate, type TemplateVariant} from '../../resources/templates/store.ts';
import {saveTemplate} from '../../resources/templates/versions.ts';
import {createWorkspace} from '../../resources/workspaces/rules.ts';
import {findWorkspaceByName} from '../../resources/workspaces/store.ts';
import {
	beginFilling,
	endFilling,
	type FilledHour,
	type FilledMessages,
	type FilledMoments,
	type FilledWorkspace,
	insertFilled,
} from '../../store/filling.ts';
import type {Store} from '../../store/store.ts';
import {benchSender} from './throw-away.ts';

export type FillOptions = {
	/** The workspaces among which the messages are distributed. */
	readonly workspaces: readonly FilledWorkspace[];
	readonly messages: number;
	/** The current time, in milliseconds. */
	readonly now: number;
	/** Returns when a waiting message is attempted next, in milliseconds. If absent, all messages are final. */
	readonly waitsUntil?: (number: number) => number;
	/** The variables of each message; `{n}` is replaced by its number. */
	readonly data: Readonly<Record<string, unknown>>;
	readonly random: (size: number) => Buffer;
	readonly onProgress?: (done: number) => void;
};

/** How far back the messages go: final ones, and waiting ones. */
const historyMs = 80 * dayMs;
const waitingMs = 3_600_000;
const addresses = 1_000_000;
const domains = 2000;
const bouncedShare = 0.03;
const perTransaction = 50_000;
/** The number of messages that share their times. */
const perMoment = 50;
/** The delays from acceptance to each of the four events, in milliseconds. */
const delays = [0, 25, 140, 180] as const;
const chanceBytes = 4;
const suffixBytes = 8;

/** Fills a store that is not in use with rows like those of real traffic, from the oldest message to the newest. */
export async function fillStore(store: Pick<Store, 'database' | 'reader'>, options: FillOptions): Promise<void> {
	await beginFilling(store, options.workspaces);
	const data = JSON.stringify(options.data);
	let writing = Promise.resolve();
	for (let first = 0; first < options.messages; first += perTransaction) {
		// The next messages are created while the engine writes these.
		const count = Math.min(perTransaction, options.messages - first);
		const generated = generateMessages(options, first, count);
		const messages = {...generated, first, perMoment, addresses, domains, data};
		await writing;
		options.onProgress?.(first);
		writing = store.database.transaction(trx => insertFilled(trx, messages));
	}
	await writing;
	await endFilling(store);
}

function toMoments({messages, now, waitsUntil}: FillOptions, number: number): FilledMoments {
	const span = waitsUntil ? waitingMs : historyMs;
	const acceptedAt = Math.floor(now - span + (number * span) / messages);
	const times = delays.map(delay => acceptedAt + delay);
	const moments = times.map(time => ({id: idFloor('evt', time).slice(4, 14), at: storeTime(time)}));
	return moments as unknown as FilledMoments;
}

function generateMessages(
	options: FillOptions,
	first: number,
	count: number,
): Pick<FilledMessages, 'suffixes' | 'moments' | 'hours'> {
	const {workspaces, waitsUntil} = options;
	const suffixes: string[] = [];
	const moments: FilledMoments[] = [];
	const hours = new Map<string, FilledHour>();
	for (let number = first; number < first + count; number += perMoment) {
		const times = toMoments(options, number);
		moments.push(times);
		for (const [index, suffix] of randomSuffixes(options, Math.min(perMoment, first + count - number)).entries()) {
			const fullSuffix = waitsUntil ? `${suffix.slice(0, -1)}w${storeTime(waitsUntil(number + index))}` : suffix;
			suffixes.push(fullSuffix);
			const workspace = ((number + index) % addresses) % workspaces.length;
			countHour(hours, workspace, times[0].at.slice(0, 13), fullSuffix);
		}
	}
	return {suffixes, moments, hours: [...hours.values()]};
}

/**
 * Returns random suffixes of ids, each with the letter of its message's outcome. They are sorted, so that each row is
 * appended to its indexes.
 */
function randomSuffixes({random}: FillOptions, count: number): string[] {
	const size = chanceBytes + suffixBytes;
	const bytes = random(count * size);
	return Array.from({length: count}, (_, index) => {
		const chance = bytes.readUInt32LE(index * size) / 2 ** 32;
		// Ids are in base 32, whose digits include those of base 16.
		const suffix = bytes.toString('hex', index * size + chanceBytes, (index + 1) * size);
		return `${suffix}${chance < bouncedShare ? 'b' : 'd'}`;
	}).sort();
}

function countHour(hours: Map<string, FilledHour>, workspace: number, hour: string, suffix: string): void {
	const key = `${workspace} ${hour}`;
	let figures = hours.get(key);
	if (!figures) {
		figures = {workspace, hour, attempted: 0, bounced: 0, delivered: 0};
		hours.set(key, figures);
	}
	figures.attempted++;
	figures.bounced += suffix.endsWith('b') ? 1 : 0;
	figures.delivered += suffix.endsWith('d') ? 1 : 0;
}

/** The number of workspaces of a medium-sized service. */
const workspaceCount = 200;

/** Creates or finds the workspaces that share the messages if none is selected. Returns their ids. */
export async function makeWorkspaces(trx: Knex.Transaction, tools: ActTools): Promise<string[]> {
	const ids: string[] = [];
	for (let number = 1; number <= workspaceCount; number++) {
		const name = `bench-${String(number).padStart(3, '0')}`;
		const workspace = (await findWorkspaceByName(trx, name)) ?? (await createWorkspace(trx, tools, {name}));
		ids.push(workspace?.id as string);
	}
	return ids;
}

/** Returns what the messages of a workspace are made of: its first sender, and the benchmark's template. */
export async function prepareWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	variant: TemplateVariant,
): Promise<FilledWorkspace> {
	const [sender] = await listSenders(trx, workspaceId);
	const template = {workspaceId, name: 'bench-receipt', variants: [variant], sample: null};
	const {id: templateId} = await saveTemplate(trx, tools, template);
	const {version_id: versionId} = (await lookUpTemplate(trx, workspaceId, templateId)) as {version_id: string};
	return {id: workspaceId, sender: sender?.address ?? benchSender, templateId, versionId};
}

import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {listSiteSuspensions, listSuspensions} from '../store/queue/open-recipients.ts';
import {type QueueSummary, summarizeQueue} from '../store/queue/queue-summary.ts';

/** What stops all mail to a destination. */
export type Stopped = {
	/** `operator`, `failures` of its site, or its `route`: a smarthost that refuses us. */
	readonly suspended_by: 'operator' | 'failures' | 'route' | null;
	readonly suspended_until: string | null;
	readonly suspension_reason: string | null;
};

/** What waits for a destination. */
export type QueueStatus = Omit<QueueSummary, 'oldest'> &
	Stopped & {readonly oldest: string | null; readonly suspended: boolean};

export const free: Stopped = {suspended_by: null, suspended_until: null, suspension_reason: null};
const empty = {ready: 0, deferred: 0, in_flight: 0, held: 0, oldest: null, last_reply: null};

type StatusQuery = {
	/** Milliseconds. */
	readonly now: number;
	readonly workspaceId: string | undefined;
	/** Also destinations that are suspended and have no mail. */
	readonly idle: boolean;
	/** This one alone. */
	readonly destination?: string;
};

/** What waits, by destination, the most first. */
export async function readQueueStatus(
	reader: Knex,
	{now, workspaceId, idle, destination}: StatusQuery,
): Promise<QueueStatus[]> {
	const counted = await summarizeQueue(reader, {now: storeTime(now), workspaceId, destination});
	const stopped = await readStopped(reader, storeTime(now));
	const known = new Set(counted.map(({destination}) => destination));
	// Those without mail are shown too, or they would be forgotten.
	const others = [...stopped].filter(([name]) => idle && !known.has(name) && name === (destination ?? name));
	return [
		...counted.map(row => withStop(row, stopped.get(row.destination) ?? free)),
		...others.map(([destination, stop]) => withStop({destination, ...empty}, stop)),
	];
}

/** By destination, at a time in the store's form. */
export async function readStopped(reader: Knex, now: string): Promise<Map<string, Stopped>> {
	const stopped = new Map<string, Stopped>();
	for (const {destination, reason, waits_for: waitsFor, suspended_until: until} of await listSiteSuspensions(
		reader,
		now,
	)) {
		const by = waitsFor === 'route' ? 'route' : 'failures';
		stopped.set(destination, {suspended_by: by, suspended_until: until, suspension_reason: reason});
	}
	for (const {destination, reason} of await listSuspensions(reader)) {
		stopped.set(destination, {suspended_by: 'operator', suspended_until: null, suspension_reason: reason});
	}
	return stopped;
}

function withStop(row: Omit<QueueStatus, keyof Stopped | 'suspended'>, stop: Stopped): QueueStatus {
	return {...row, suspended: stop.suspended_by !== null, ...stop};
}

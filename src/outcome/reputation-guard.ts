import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import type {ReputationLimits} from '../mail/reputation.ts';
import {recordAct} from '../resources/audit/store.ts';
import {bumpGeneration} from '../store/changes.ts';
import {type ReputationStatus, readStatuses, updateJudged} from '../store/reputation.ts';
import type {Store} from '../store/store.ts';
import {type Finding, findFindings, isCalm, pauseReason, windowStarts} from './reputation-findings.ts';

/** An automatic change of a workspace: paused, warned, or calm again. */
export type Judged = {
	readonly kind: 'paused' | 'warned' | 'calm';
	readonly workspaceId: string;
	readonly name: string;
	readonly findings: readonly Finding[];
};

type GuardOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	/** Returns the current limits. If `null`, workspaces are counted but not judged. */
	readonly limits: () => ReputationLimits | null;
	readonly acting: Acting;
	/** Called after the commit. */
	readonly onJudged: (judged: Judged) => void;
	readonly onError: (error: unknown) => void;
	/** The minimum time between two checks, in milliseconds. */
	readonly restMs?: number;
	/** The interval between checks of all workspaces, which include what other processes counted. */
	readonly roundMs?: number;
};

export type Guard = {
	/** Reports new figures of these workspaces. They are judged at once, or after `restMs` under load. */
	readonly counted: (workspaceIds: readonly string[]) => void;
	/** Resolves when no check is running. */
	readonly stop: () => Promise<void>;
};

/**
 * Watches the reputation of workspaces. It warns those with too many bounces or complaints, and pauses them if the
 * rates are clearly too high (R7.2). It relies on the hourly counts in the store, and reads them beside the writer, so
 * that it never delays sending. It writes only changes, and never resumes a paused workspace: only an operator can.
 */
export function startGuard(options: GuardOptions): Guard {
	const {onError, restMs = 250, roundMs = 60_000} = options;
	let waiting = new Set<string>();
	let running: Promise<void> | null = null;
	let timer: NodeJS.Timeout | undefined;
	let isStopped = false;

	/** Only one check runs at a time. Figures reported meanwhile are checked after a rest. */
	function start(ids?: readonly string[]): void {
		running = check(options, ids)
			.catch(onError)
			.finally(() => {
				running = null;
				if (!isStopped) {
					timer = setTimeout(checkWaiting, restMs);
				}
			});
	}

	function checkWaiting(): void {
		timer = undefined;
		if (waiting.size > 0) {
			const ids = [...waiting];
			waiting = new Set();
			start(ids);
		}
	}

	const round = setInterval(() => {
		if (!running) {
			clearTimeout(timer);
			waiting = new Set();
			start();
		}
	}, roundMs);
	start();

	return {
		counted(workspaceIds) {
			for (const id of workspaceIds) {
				waiting.add(id);
			}
			if (!running && timer === undefined && !isStopped) {
				checkWaiting();
			}
		},
		async stop() {
			isStopped = true;
			clearInterval(round);
			clearTimeout(timer);
			await running;
		},
	};
}

async function check({store, limits, acting, onJudged}: GuardOptions, ids?: readonly string[]): Promise<void> {
	const currentLimits = limits();
	if (currentLimits !== null) {
		for (const judged of await judge(store, currentLimits, acting, ids)) {
			onJudged(judged);
		}
	}
}

/**
 * Judges all or some workspaces and returns the changes. If several nodes judge the same one, the change is made once.
 */
export async function judge(
	{reader, writer}: Pick<Store, 'reader' | 'writer'>,
	limits: ReputationLimits,
	acting: Acting,
	ids?: readonly string[],
): Promise<readonly Judged[]> {
	const now = acting.clock.now();
	const statuses = await readStatuses(reader, {starts: windowStarts(now), ...(ids && {ids})});
	const due = statuses.flatMap(status => {
		const judged = toChange(status, limits);
		return judged === null ? [] : [{status, judged}];
	});
	if (due.length === 0) {
		return [];
	}
	return await writer.transaction(async trx => {
		const applied: Judged[] = [];
		for (const {status, judged} of due) {
			if (await applyChange(trx, acting, status, judged, storeTime(now))) {
				applied.push(judged);
			}
		}
		if (applied.some(({kind}) => kind === 'paused')) {
			await bumpGeneration(trx);
		}
		return applied;
	});
}

/** Returns the change to make, or `null`. A paused workspace stays paused until an operator resumes it. */
function toChange({id, name, pausedAt, warnedAt, windows}: ReputationStatus, limits: ReputationLimits): Judged | null {
	const findings = findFindings(windows, limits);
	const common = {workspaceId: id, name, findings};
	if (pausedAt !== null) {
		return null;
	}
	if (findings[0]?.level === 'pause') {
		return {...common, kind: 'paused'};
	}
	if (warnedAt === null) {
		return findings.length > 0 ? {...common, kind: 'warned'} : null;
	}
	return isCalm(windows, limits) ? {...common, kind: 'calm'} : null;
}

async function applyChange(
	trx: Knex.Transaction,
	acting: Acting,
	status: ReputationStatus,
	judged: Judged,
	now: string,
): Promise<boolean> {
	switch (judged.kind) {
		case 'paused':
			return await pause(trx, acting, status, {reason: pauseReason(judged.findings), now});
		case 'warned':
			return await updateJudged(trx, status, {reputation_warned_at: now});
		case 'calm':
			return await updateJudged(trx, status, {reputation_warned_at: null});
	}
}

async function pause(
	trx: Knex.Transaction,
	acting: Acting,
	status: ReputationStatus,
	{reason, now}: {readonly reason: string; readonly now: string},
): Promise<boolean> {
	const changes = {paused_at: now, pause_reason: reason, reputation_warned_at: status.warnedAt ?? now};
	const isPaused = await updateJudged(trx, status, changes);
	if (isPaused) {
		const {id} = status;
		await recordAct(trx, acting, {action: 'workspace.paused', workspaceId: id, target: id, detail: {reason}});
	}
	return isPaused;
}

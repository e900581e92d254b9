import type {Knex} from 'knex';
import {dayMs, hourMs, storeTime} from '../../kit/time.ts';
import {parseDkimRecord} from '../../mail/dkim-record.ts';
import type {Acting} from '../../mail/operator.ts';
import {notify} from '../../outcome/outbox.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {recordAct} from '../audit/store.ts';
import {type CheckedRecord, checkDomainRecords, type OpenSources} from './check-records.ts';
import {type DomainRecord, type RecordKey, readDomainRecords, type SendingNames} from './domain-records.ts';
import {returnPathProblem} from './rules.ts';
import {
	activateDkimKey,
	claimDomainCheck,
	type DkimKey,
	type Domain,
	type DueDomain,
	deleteDkimKeys,
	listDkimKeys,
	markKeysSeen,
	updateCheckedDomain,
} from './store.ts';

/** The DNS records of a domain at one time. */
export type DomainQuery = {
	readonly domain: Domain;
	readonly names: SendingNames;
	readonly records: readonly CheckedRecord[];
};

/** The result of a check. */
export type DomainCheck = {
	readonly before: Domain;
	readonly domain: Domain;
	/** The records with the DNS responses, and with the keys as they are after the check. */
	readonly records: readonly CheckedRecord[];
	/** The selectors of the keys that started to sign. */
	readonly activated: readonly string[];
};

/** Checks all records of a domain in DNS. Writes nothing. */
export async function queryDomainRecords(
	reader: Knex,
	domain: Domain,
	names: SendingNames,
	openSources: OpenSources,
	now: number,
): Promise<DomainQuery> {
	const keys = await listDkimKeys(reader, domain.id);
	const sources = openSources();
	try {
		const expected = await readDomainRecords(reader, names, domain, keys, now);
		const records = await checkDomainRecords(domain.name, expected, sources);
		return {domain, names, records: records.map(record => judgeRetired(record, storeTime(now)))};
	} finally {
		sources.close();
	}
}

/** Claims a domain for a check, or returns `undefined` if another process has claimed it. */
export async function takeDomain(trx: Knex.Transaction, domain: Domain, now: number): Promise<Domain | undefined> {
	const at = storeTime(now);
	return (await claimDomainCheck(trx, domain, at)) ? {...domain, checked_at: at} : undefined;
}

/**
 * Writes the consequences of a check: the domain's state, the activation of rotated keys, the removal of retired ones,
 * and whether its own return path is used. Writes nothing and returns `undefined` if another process has claimed the
 * domain since, or it was removed.
 */
export async function recordDomainCheck(
	trx: Knex.Transaction,
	acting: Acting,
	{domain: before, names, records}: DomainQuery,
): Promise<DomainCheck | undefined> {
	const at = storeTime(acting.clock.now());
	const next = nextStatus(before, judgeProofs(records), at);
	const status = {...next, first_verified_at: before.first_verified_at ?? before.verified_at ?? next.verified_at};
	const current = {...before, ...status};
	const changes = {
		...status,
		return_path_at: returnPathAt(current, records, at),
		links_ok_at: linksOkAt(current, records, at),
	};
	if (!(await updateCheckedDomain(trx, before, changes))) {
		return undefined;
	}
	const propagated = records.filter(({key, isPropagated}) => key?.state === 'pending' && isPropagated);
	for (const {key} of propagated) {
		const {id, algorithm} = key as RecordKey;
		await activateDkimKey(trx, {id, algorithm, domain_id: before.id}, at);
	}
	const signing = records.flatMap(({key, ok}) => (key?.state === 'active' && ok ? [key.id] : []));
	const seenCount = await markKeysSeen(trx, signing, at);
	const removedIds = records.filter(record => isRetiredRecordGone(record, at)).map(({key}) => (key as RecordKey).id);
	await deleteDkimKeys(trx, removedIds);

	const domain = {...before, ...changes};
	const isChanged =
		propagated.length > 0 ||
		seenCount > 0 ||
		removedIds.length > 0 ||
		domain.return_path_at !== before.return_path_at ||
		domain.links_ok_at !== before.links_ok_at;
	const activated = propagated.map(({name}) => name.slice(0, name.indexOf('.')));
	if (isChanged || domain.state !== before.state) {
		await recordAct(trx, acting, {
			action: domain.state === before.state ? 'domain.updated' : `domain.${domain.state}`,
			workspaceId: domain.workspace_id,
			target: domain.id,
			detail: {
				name: domain.name,
				activated,
				keys_seen: seenCount,
				keys_removed: removedIds.length,
				return_path: domain.return_path_at !== null,
				...(domain.link_host !== null && {links: domain.links_ok_at !== null}),
			},
		});
		await bumpGeneration(trx);
	}
	if (domain.state !== before.state && (domain.state === 'verified' || before.verified_at !== null)) {
		const detail = {domain: domain.name, state: domain.state, verified: domain.verified_at !== null};
		const about = {workspaceId: domain.workspace_id, messageId: null, recipient: null};
		await notify(trx, [{...about, type: 'domain_changed', at, detail}], acting);
	}
	const keys = await listDkimKeys(trx, domain.id);
	const expected = await readDomainRecords(trx, names, domain, keys, acting.clock.now());
	return {before, domain, records: withResponses(expected, records), activated};
}

type CheckDomain = {
	readonly find: () => Promise<Domain | undefined>;
	readonly check: (domain: Domain) => Promise<DomainQuery>;
	readonly write: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly acting: Acting;
};

const maxAttempts = 3;

/**
 * Checks a domain immediately, even if the daemon is checking it at the same time. Returns `undefined` if the domain
 * does not exist, and `busy` if other processes keep claiming it.
 */
export async function checkDomain({
	find,
	check,
	write,
	acting,
}: CheckDomain): Promise<DomainCheck | 'busy' | undefined> {
	for (let attempt = 0; attempt < maxAttempts; attempt++) {
		const row = await find();
		if (!row) {
			return undefined;
		}
		const claimed = await write(trx => takeDomain(trx, row, acting.clock.now()));
		const query = claimed && (await check(claimed));
		const checked = query && (await write(trx => recordDomainCheck(trx, acting, query)));
		if (checked) {
			return checked;
		}
	}
	return 'busy';
}

/** Combines records with the DNS responses for the same name and purpose. */
function withResponses(records: readonly DomainRecord[], checked: readonly CheckedRecord[]): CheckedRecord[] {
	return records.flatMap(record => {
		const match = checked.find(({name, purpose}) => name === record.name && purpose === record.purpose);
		return match === undefined ? [] : [{...match, ...record, found: match.found}];
	});
}

/** Judges whether an ownership record or a DKIM key proves that whoever added the domain controls its DNS. */
function judgeProofs(records: readonly CheckedRecord[]): ProofState {
	const proofs = records.filter(
		({purpose, key}) => purpose === 'ownership' || (purpose === 'dkim' && key?.state !== 'retired'),
	);
	if (proofs.some(({ok}) => ok)) {
		return 'shown';
	}
	return proofs.some(({state}) => state === 'unknown') ? 'unknown' : 'absent';
}

/**
 * Returns when the domain's own return path came into use, or `null`. It needs both records: without its MX bounces
 * would be lost, and without its SPF messages would be rejected. It is unchanged while DNS does not respond. The domain
 * must be verified too, because the records may have been published for another workspace.
 */
function returnPathAt(
	{name, return_path_domain: host, return_path_at: before, verified_at: verifiedAt}: Domain,
	records: readonly CheckedRecord[],
	at: string,
): string | null {
	// An older version allowed hosts outside of the domain.
	if (verifiedAt === null || returnPathProblem(name, host) !== null) {
		return null;
	}
	const required = records.filter(({purpose}) => purpose === 'return_path' || purpose === 'spf');
	if (required.every(({ok}) => ok)) {
		return before ?? at;
	}
	return required.some(({state}) => state === 'missing' || state === 'different') ? null : before;
}

/** Returns when the link host came into use, or `null`. As with the return path, the domain must be verified. */
function linksOkAt(
	{link_host: host, links_ok_at: before, verified_at: verifiedAt}: Domain,
	records: readonly CheckedRecord[],
	at: string,
): string | null {
	const record = records.find(({purpose}) => purpose === 'links');
	if (host === null || verifiedAt === null || record === undefined) {
		return null;
	}
	if (record.ok) {
		return before ?? at;
	}
	return record.state === 'unknown' ? before : null;
}

/** The record of a retired key must stay published until its messages have arrived, and can then be removed. */
function judgeRetired(record: CheckedRecord, at: string): CheckedRecord {
	const keepUntil = record.key?.keep_until ?? null;
	if (keepUntil === null || record.state === 'unknown') {
		return record;
	}
	if (keepUntil > at) {
		return record.ok ? record : {...record, problem: 'messages that it signed may still be in transit'};
	}
	return {...record, ok: true, state: 'ok', problem: 'it can be removed, or published with an empty p='};
}

function isRetiredRecordGone({key, found, state}: CheckedRecord, at: string): boolean {
	const isUnneeded = key?.keep_until != null && key.keep_until <= at;
	return isUnneeded && state !== 'unknown' && found.every(text => parseDkimRecord(text)?.key === null);
}

/** Whether the records that verify a domain are published. `unknown` means that DNS did not respond. */
export type ProofState = 'shown' | 'absent' | 'unknown';

const minuteMs = 60_000;
/** A domain fails after `maxFailures` failed checks over this time. Until then it is checked at least hourly. */
export const gracePeriodMs = 72 * hourMs;
const maxFailures = 3;

type DomainStatus = Pick<Domain, 'state' | 'state_at' | 'verified_at' | 'failures'>;

/** Returns the state after a check (R5.5): pending → verified → degraded → failed. One good check verifies it again. */
export function nextStatus(current: DomainStatus, sight: ProofState, at: string): DomainStatus {
	const {state, state_at, verified_at, failures} = current;
	switch (sight) {
		case 'unknown':
			return {state, state_at, verified_at, failures};
		case 'shown':
			return state === 'verified'
				? {state, state_at, verified_at, failures: 0}
				: {state: 'verified', state_at: at, verified_at: verified_at ?? at, failures: 0};
		case 'absent':
			if (state === 'verified') {
				return {state: 'degraded', state_at: at, verified_at, failures: 1};
			}
			return state !== 'failed' &&
				failures + 1 >= maxFailures &&
				Date.parse(at) - Date.parse(state_at) >= gracePeriodMs
				? {state: 'failed', state_at: at, verified_at: null, failures: failures + 1}
				: {state, state_at, verified_at, failures: failures + 1};
	}
}

/** Returns when to check a domain next, in milliseconds; 0 if it was never checked. */
export function nextCheck(domain: DueDomain, now: number): number {
	if (domain.checked_at === null) {
		return 0;
	}
	const checkedAt = Date.parse(domain.checked_at);
	if (checkedAt > now) {
		return now; // The clock was set back.
	}
	const since = expectedSince(domain);
	return checkedAt + (since === null ? dayMs : checkInterval(checkedAt - Date.parse(since)));
}

/** Returns when the daemon checks a domain with these keys next, in the store's format. */
export function nextCheckAt(domain: Domain, keys: readonly DkimKey[], now: number): string {
	const pendingAt = keys
		.map(key => (key.seen_at === null && key.retired_at === null ? key.created_at : null))
		.reduce((newest, at) => ((at ?? '') > (newest ?? '') ? at : newest), null);
	return storeTime(Math.max(now, nextCheck({...domain, pending_at: pendingAt}, now)));
}

/** Returns since when a change in DNS has been expected, because records are to be published or have disappeared. */
function expectedSince(domain: DueDomain): string | null {
	const {state, state_at, return_path_at, link_host, links_ok_at, pending_at} = domain;
	const isOpen = return_path_at === null || (link_host !== null && links_ok_at === null);
	const isWaiting = state === 'pending' || state === 'degraded' || (state === 'verified' && isOpen);
	if (!isWaiting || pending_at === null) {
		return isWaiting ? state_at : pending_at;
	}
	return pending_at > state_at ? pending_at : state_at;
}

// Checks are a minute apart for ten minutes, then ten minutes for two hours, then hourly up to 72 hours, then daily.
function checkInterval(ageMs: number): number {
	if (ageMs < 10 * minuteMs) {
		return minuteMs;
	}
	if (ageMs < 130 * minuteMs) {
		return 10 * minuteMs;
	}
	return ageMs < gracePeriodMs ? hourMs : dayMs;
}

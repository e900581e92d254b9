import type {Settings} from '../../config/settings.ts';
import {judgeCertificate} from '../../doctor/certificates.ts';
import type {Check} from '../../doctor/finding.ts';
import {databaseClockCheck, diskCheck} from '../../doctor/machine.ts';
import {certificateChecks, describeSilence, isSilent, noCertificateCheck} from '../../doctor/outbound.ts';
import type {Clock} from '../../kit/clock.ts';
import {groupBy} from '../../kit/collections.ts';
import {withoutControls} from '../../kit/text.ts';
import {dayMs, hourMs, storeTime} from '../../kit/time.ts';
import type {AlertKind, Condition} from '../../mail/alert.ts';
import {idTime} from '../../mail/ids.ts';
import {relayAdvice} from '../../mail/relay-advice.ts';
import {listedNow} from '../../store/blocklists.ts';
import {readBackups} from '../../store/data-folder/backup-note.ts';
import {listNodes} from '../../store/nodes.ts';
import {readDue, readSuspensions} from '../../store/queue/open-recipients.ts';
import {listBlockingSites, listRefusingRoutes} from '../../store/queue/sites.ts';
import type {Store} from '../../store/store.ts';
import {listCertificates} from '../certificates/store.ts';
import {listFailedDomains} from '../domains/store.ts';
import {findOldestUnread} from '../received/inbound-store.ts';
import {listSmarthosts} from '../smarthosts/store.ts';
import {listDeadEndpoints} from '../webhooks/queue-store.ts';
import {findOldestWorkspace, findPausedByOthers} from '../workspaces/store.ts';
import {listConditions} from './store.ts';

/** The sources of conditions. */
type Sources = {
	readonly settings: Settings;
	/** The current MAILCTL_MIN_FREE_DISK, which can change while the daemon runs. */
	readonly minFreeDisk: () => number;
	readonly store: Store;
	readonly clock: Clock;
	/** The name of this machine. */
	readonly host: string;
	/** The version of this program; `installed` returns the one that is installed now. */
	readonly version: string;
	readonly installed: () => string;
	/** The number of milliseconds by which the clock was set back since the last call. */
	readonly clockStep: () => number;
	/** Whether the bounce mailbox could be read the last time; `null` if none is read here. */
	readonly mailboxUp: () => boolean | null;
};

/** A condition before its kind is added. Without a workspace it concerns the installation. */
type ConditionDetails = Pick<Condition, 'subject' | 'detail' | 'fix'> & Partial<Pick<Condition, 'workspaceId'>>;

const minuteMs = 60_000;
/** Due messages are attempted within seconds, unless a limit or a long queue delays them. */
const dueMs = 30 * minuteMs;
const unreadMs = 30 * minuteMs;
const aliveMs = minuteMs;
/** After this time a lost node is no longer reported. */
const lostMs = dayMs;
const firstBackupMs = 7 * dayMs;
const minBackupMs = 26 * hourMs;
/**
 * The maximum number of conditions that are read per kind. Others raise no alert, and one that leaves the list clears.
 */
const limits = {limit: 1000, perWorkspace: 100};
/** Half an hour of failed orders: a CA that is unreachable for minutes is not reported. */
const failedOrders = 3;

/**
 * Reads each kind of condition from the store, the machine and the local checks of doctor, without the internet.
 * `alertKinds` says how long a condition must last before it begins. It clears if it is not read for a while
 * (judge.ts).
 */
const table: Readonly<Record<AlertKind, (sources: Sources) => Promise<readonly ConditionDetails[]>>> = {
	async blocklisted({store, clock}) {
		const listings = await listedNow(store.reader, clock.now());
		return listings.map(({source, zone, name, reason, delist}) => ({
			subject: `${source} ${zone}`,
			detail: `${source} is listed by ${name}${reason === null ? '' : `: ${withoutControls(reason)}`}`,
			fix: `fix the cause, then request removal: ${delist}`,
		}));
	},

	async domain_failed({store}) {
		const domains = await listFailedDomains(store.reader, limits);
		return domains.map(({name, workspace_id: workspaceId, state}) => ({
			subject: `${name} ${workspaceId}`,
			workspaceId,
			detail: `${name}: its records are missing${state === 'failed' ? ', and it is no longer verified' : ' or wrong'}`,
			fix: `run mailctl domain show ${name} to see the records to publish`,
		}));
	},

	async certificate(sources) {
		const {settings, clock} = sources;
		const files = certificateChecks(settings, clock).filter(check => check !== noCertificateCheck);
		return [...(await readChecks(sources, files)), ...(settings.acme ? await readOrdered(sources) : [])];
	},

	async workspace_paused({store}) {
		const workspaces = await findPausedByOthers(store.reader, limits.limit);
		return workspaces.map(({id, name, pause_reason: reason}) => ({
			subject: id,
			workspaceId: id,
			detail: `workspace ${name} is paused: ${reason ?? 'no reason was given'}`,
			fix: `find the cause, then run mailctl workspace resume ${name}`,
		}));
	},

	async provider_blocks({store, clock}) {
		const sites = await listBlockingSites(store.reader, storeTime(clock.now()), limits.limit);
		// Many mail servers refuse an address on a common blocklist. That is one condition for all without an entry of
		// their own.
		return [...groupBy(sites, one => one.provider)].map(([provider, some]) => {
			const names = some.slice(0, 3).map(({site}) => site);
			const more = some.length > names.length ? ` and ${some.length - names.length} more` : '';
			const {reason = null, advice} = some[0] ?? {};
			const detail = `mail to ${names.join(', ')}${more} is waiting, because our address is blocked there`;
			return {subject: provider, detail: reason === null ? detail : `${detail}: ${reason}`, fix: advice ?? ''};
		});
	},

	async smarthost_refuses({store, clock}) {
		const routes = await listRefusingRoutes(store.reader, storeTime(clock.now()));
		return routes.map(({site, reason}) => ({
			subject: site,
			detail: reason === null ? `the ${site} refuses us` : `${reason} (the ${site})`,
			fix: `${relayAdvice(reason ?? '')}. Its mail is waiting, and mailctl doctor tests the relay`,
		}));
	},

	async smarthost_silent({store, clock}) {
		const silent = (await listSmarthosts(store.reader, null)).filter(one => isSilent(one, clock.now()));
		return [...groupBy(silent, one => one.workspace_id)].flatMap(([workspaceId, own]) =>
			own.slice(0, limits.perWorkspace).map(one => ({subject: one.id, workspaceId, ...describeSilence(one)})),
		);
	},

	async bounces_unread({store, clock, host, mailboxUp}) {
		const mailbox = {
			subject: `${host} mailbox`,
			detail: `${host}: the bounce mailbox cannot be read`,
			fix: 'run mailctl doctor to see why',
		};
		const oldest = await findOldestUnread(store.reader);
		const isLate = oldest !== null && oldest < storeTime(clock.now() - unreadMs);
		const reports = {
			subject: 'store',
			detail: `reports received at ${oldest?.slice(0, 16)} UTC have not been read yet`,
			fix: 'check that a daemon with the role inbound is running, and read its log',
		};
		return [...(mailboxUp() === false ? [mailbox] : []), ...(isLate ? [reports] : [])];
	},

	async webhook_dead({store, clock}) {
		const endpoints = await listDeadEndpoints(store.reader, storeTime(clock.now() - dayMs), limits);
		return endpoints.map(({id, url, workspace_id: workspaceId, deadSince}) => ({
			subject: id,
			workspaceId,
			detail: `${new URL(url).host} has accepted no events since ${deadSince.slice(0, 16)} UTC`,
			fix: `run mailctl webhook test ${id} to see its response; if it is disabled, mailctl webhook enable ${id}`,
		}));
	},

	disk: sources => readChecks(sources, [diskCheck(sources.settings.dataDir, sources.minFreeDisk)]),

	async queue_old({store, clock}) {
		const due = await readDue(store.reader, storeTime(clock.now() - dueMs));
		const suspended = await readSuspensions(store.reader);
		const late = [...new Set(due.map(({destination}) => destination))].filter(one => !suspended.includes(one));
		if (late.length === 0) {
			return [];
		}
		const names = late.slice(0, 5).join(', ');
		const whose = late.length > 5 ? `${late.length} destinations, such as ${names},` : names;
		return [
			{
				subject: 'queue',
				detail: `mail to ${whose} has been due for over 30 minutes`,
				fix: 'run mailctl queue summary and mailctl queue why ID to see why it is delayed',
			},
		];
	},

	/**
	 * A node that has disappeared cannot be read. `loseNodes` begins its condition when it takes the node off the list.
	 */
	async node_lost({store, clock}) {
		const lost = (await listConditions(store.reader)).filter(
			one => one.kind === 'node_lost' && one.ended_at === null,
		);
		const nodes = lost.length === 0 ? [] : await listNodes(store.reader, storeTime(clock.now() - aliveMs));
		const alive = new Set(nodes.map(node => node.host));
		const recently = storeTime(clock.now() - lostMs);
		return lost.filter(({subject, began_at: began}) => !alive.has(subject) && began > recently);
	},

	async backup_old({settings, store, clock, host}) {
		const {last, previous} = readBackups(settings.dataDir);
		const oldest = last === null && !store.dialect.isShared ? await findOldestWorkspace(store.reader) : undefined;
		const since = last ?? (oldest ? idTime(oldest.id) : clock.now());
		const maxAge = last === null ? firstBackupMs : Math.max(minBackupMs, 2 * (last - (previous ?? last)));
		if (clock.now() - since < maxAge) {
			return [];
		}
		const state =
			last === null ? 'no backup was made yet' : `the last backup is from ${storeTime(last).slice(0, 16)} UTC`;
		return [{subject: host, detail: `${host}: ${state}`, fix: 'run mailctl backup FILE, every day by a timer'}];
	},

	async clock(sources) {
		const {store, host, clockStep} = sources;
		const checked = await readChecks(sources, store.dialect.isShared ? [databaseClockCheck(store)] : []);
		const stepMs = clockStep();
		const step = {
			subject: `${host} step`,
			detail: `${host}: the clock was set back by ${Math.round(stepMs / 1000)} s`,
			fix: 'synchronize it by NTP: install chrony or enable systemd-timesyncd',
		};
		return [...(stepMs === 0 ? [] : [step]), ...checked];
	},

	async version({store, clock, host, version, installed}) {
		const nodes = await listNodes(store.reader, storeTime(clock.now() - aliveMs));
		const running = [...new Set(nodes.map(node => node.version))].toSorted();
		const differing = {
			subject: 'nodes',
			detail: `nodes run ${running.join(' and ')}`,
			fix: 'update all of them; mailctl node list shows their versions',
		};
		const outdated = {
			subject: host,
			detail: `${host}: ${installed()} is installed, but the daemon runs ${version}`,
			fix: 'restart it',
		};
		return [...(running.length > 1 ? [differing] : []), ...(installed() === version ? [] : [outdated])];
	},
};

/** Reads the conditions of one kind. */
export async function readConditions(kind: AlertKind, sources: Sources): Promise<Condition[]> {
	const conditions = await table[kind](sources);
	return conditions.map(({subject, workspaceId = null, detail, fix}) => ({kind, subject, workspaceId, detail, fix}));
}

/** Returns the problems that doctor's checks find on this machine, one condition per check. */
async function readChecks({host}: Sources, checks: readonly Check[]): Promise<ConditionDetails[]> {
	const problems: ConditionDetails[] = [];
	for (const {name, run} of checks) {
		const wrong = (await run()).filter(({status}) => status !== 'ok');
		const detail = wrong.map(one => one.detail).join('; ');
		problems.push(
			...wrong.slice(0, 1).map(({fix}) => ({subject: `${host} ${name}`, detail: `${host}: ${detail}`, fix})),
		);
	}
	return problems;
}

/** Returns the problems of certificates that are ordered automatically from a CA. */
async function readOrdered({store, clock}: Sources): Promise<ConditionDetails[]> {
	const rows = (await listCertificates(store.reader)).filter(({unused}) => unused === null);
	return rows
		.map(row => ({...row, ...judgeCertificate(row, clock.now())}))
		.filter(({status, not_after: until, fault: problem, tries}) => {
			const isOld = problem === null ? until !== null : tries >= failedOrders;
			// An expiring certificate is also reported after one failed order, for example just after an operator
			// requested it.
			return status === 'fail' || (status === 'warn' && isOld);
		})
		.map(({name: subject, detail, fix}) => ({subject, detail, fix}));
}

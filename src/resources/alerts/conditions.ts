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
import type {Refusals} from '../../outcome/infrastructure-alarm.ts';
import {listedNow} from '../../store/blocklists.ts';
import {readBackups} from '../../store/data-folder/backup-note.ts';
import {listNodes} from '../../store/nodes.ts';
import {readDue, readSuspensions} from '../../store/queue/open-recipients.ts';
import {listBlockingSites, listFailingSites, listRefusingRoutes} from '../../store/queue/sites.ts';
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
	/** The providers that refuse too much mail from this machine. */
	readonly refusals: () => readonly Refusals[];
};

/** A condition without its kind. If it has no workspace, it concerns the installation. */
type ConditionDetails = Pick<Condition, 'subject' | 'detail' | 'fix'> & Partial<Pick<Condition, 'workspaceId'>>;

const minuteMs = 60_000;
/** Due messages are attempted within seconds, unless a limit or a long queue delays them. */
const maxDueMs = 30 * minuteMs;
const maxUnreadMs = 30 * minuteMs;
const maxSilenceMs = minuteMs;
/** A lost node is no longer reported after this time. */
const reportLostMs = dayMs;
const maxFirstBackupMs = 7 * dayMs;
const minBackupAgeMs = 26 * hourMs;
/** The maximum number of conditions read per kind. Others raise no alert, and one that leaves the list clears. */
const limits = {limit: 1000, perWorkspace: 100};
/** After four backoffs in a row, of 1, 2, 5 and 15 minutes, a destination counts as failing. */
const minBackoffs = 4;
/** A destination is tested again when its next message is due, which may take this long. */
const maxProbeMs = 2 * hourMs;
/** This many orders fail in half an hour, so that a CA that is unreachable for minutes is not reported. */
const minFailedOrders = 3;

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
		// Many mail servers refuse an address on a common blocklist. Those without their own entry share a condition.
		return [...groupBy(sites, ({provider}) => provider)].map(([provider, blocking]) => {
			const names = blocking.slice(0, 3).map(({site}) => site);
			const more = blocking.length > names.length ? ` and ${blocking.length - names.length} more` : '';
			const {reason = null, advice} = blocking[0] ?? {};
			const detail = `mail to ${names.join(', ')}${more} is waiting, because our address is blocked there`;
			return {subject: provider, detail: reason === null ? detail : `${detail}: ${reason}`, fix: advice ?? ''};
		});
	},

	async provider_refuses({refusals}) {
		return refusals().map(({provider, attempts, refused, reply}) => ({
			subject: provider,
			detail: `${provider} refused ${refused} of ${attempts} messages of the last hour because of our setup: ${withoutControls(reply)}`,
			fix: 'run mailctl doctor, which checks SPF, DKIM, the host name and blocklists',
		}));
	},

	async destination_failing({store, clock}) {
		const since = storeTime(clock.now() - maxProbeMs);
		const failing = await listFailingSites(store.reader, {since, step: minBackoffs, limit: limits.limit});
		return failing.map(({site, step, reason}) => ({
			subject: site,
			detail: `${site} has accepted no mail, ${step} backoffs in a row${reason === null || reason === '' ? '' : `: ${withoutControls(reason)}`}`,
			fix: 'its mail is retried until it expires; mailctl queue summary shows how much is waiting',
		}));
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
		const silent = (await listSmarthosts(store.reader, null)).filter(relay => isSilent(relay, clock.now()));
		return [...groupBy(silent, relay => relay.workspace_id)].flatMap(([workspaceId, relays]) =>
			relays
				.slice(0, limits.perWorkspace)
				.map(relay => ({subject: relay.id, workspaceId, ...describeSilence(relay)})),
		);
	},

	async bounces_unread({store, clock, host, mailboxUp}) {
		const mailbox = {
			subject: `${host} mailbox`,
			detail: `${host}: the bounce mailbox cannot be read`,
			fix: 'run mailctl doctor to see why',
		};
		const oldest = await findOldestUnread(store.reader);
		const isLate = oldest !== null && oldest < storeTime(clock.now() - maxUnreadMs);
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
		const due = await readDue(store.reader, storeTime(clock.now() - maxDueMs));
		const suspended = await readSuspensions(store.reader);
		const destinations = new Set(due.map(({destination}) => destination));
		const late = [...destinations].filter(destination => !suspended.includes(destination));
		if (late.length === 0) {
			return [];
		}
		const names = late.slice(0, 5).join(', ');
		const lateText = late.length > 5 ? `${late.length} destinations, such as ${names},` : names;
		return [
			{
				subject: 'queue',
				detail: `mail to ${lateText} has been due for over 30 minutes`,
				fix: 'run mailctl queue summary and mailctl queue why ID to see why it is delayed',
			},
		];
	},

	/** A lost node cannot be read. `loseNodes` begins its condition when it takes the node off the list. */
	async node_lost({store, clock}) {
		const lost = (await listConditions(store.reader)).filter(
			condition => condition.kind === 'node_lost' && condition.ended_at === null,
		);
		const nodes = lost.length === 0 ? [] : await listNodes(store.reader, storeTime(clock.now() - maxSilenceMs));
		const alive = new Set(nodes.map(node => node.host));
		const earliest = storeTime(clock.now() - reportLostMs);
		return lost.filter(({subject, began_at: beganAt}) => !alive.has(subject) && beganAt > earliest);
	},

	async backup_old({settings, store, clock, host}) {
		const {last, previous} = readBackups(settings.dataDir);
		const oldest = last === null && !store.dialect.isShared ? await findOldestWorkspace(store.reader) : undefined;
		const since = last ?? (oldest ? idTime(oldest.id) : clock.now());
		const maxAge = last === null ? maxFirstBackupMs : Math.max(minBackupAgeMs, 2 * (last - (previous ?? last)));
		if (clock.now() - since < maxAge) {
			return [];
		}
		const state =
			last === null ? 'no backup exists yet' : `the last backup is from ${storeTime(last).slice(0, 16)} UTC`;
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
		const nodes = await listNodes(store.reader, storeTime(clock.now() - maxSilenceMs));
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
		const findings = (await run()).filter(({status}) => status !== 'ok');
		const [first] = findings;
		if (first) {
			const details = findings.map(({detail}) => detail).join('; ');
			problems.push({subject: `${host} ${name}`, detail: `${host}: ${details}`, fix: first.fix});
		}
	}
	return problems;
}

/** Returns the problems of certificates that are ordered automatically from a CA. */
async function readOrdered({store, clock}: Sources): Promise<ConditionDetails[]> {
	const rows = (await listCertificates(store.reader)).filter(({unused}) => unused === null);
	return rows
		.map(row => ({...row, ...judgeCertificate(row, clock.now())}))
		.filter(({status, not_after: until, fault: problem, tries}) => {
			const isPersistent = problem === null ? until !== null : tries >= minFailedOrders;
			// An expiring certificate is also reported after one failed order, for example just after an operator
			// requested it.
			return status === 'fail' || (status === 'warn' && isPersistent);
		})
		.map(({name: subject, detail, fix}) => ({subject, detail, fix}));
}

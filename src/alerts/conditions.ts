import type {Settings} from '../config/settings.ts';
import {readBackups} from '../data-folder/backup-note.ts';
import {judgeCertificate} from '../doctor/certificates.ts';
import type {Check} from '../doctor/finding.ts';
import {databaseClockCheck, diskCheck} from '../doctor/machine.ts';
import {certificateChecks, isSilent, noCertificateCheck, silenceOf} from '../doctor/outbound.ts';
import type {Clock} from '../kit/clock.ts';
import {groupBy} from '../kit/collections.ts';
import {withoutControls} from '../kit/text.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import type {AlertKind, Condition} from '../mail/alert.ts';
import {idTime} from '../mail/ids.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import {listConditions} from '../store/alerts.ts';
import {listedNow} from '../store/blocklists.ts';
import {listCertificates} from '../store/certificates.ts';
import {listFailedDomains} from '../store/domains.ts';
import {findOldestUnread} from '../store/inbound-mails.ts';
import {listNodes} from '../store/nodes.ts';
import {readDue, readSuspensions} from '../store/queue/open-recipients.ts';
import {listBlockingSites, listRefusingRoutes} from '../store/queue/sites.ts';
import {listSmarthosts} from '../store/smarthosts.ts';
import type {Store} from '../store/store.ts';
import {listDeadEndpoints} from '../store/webhook-queue.ts';
import {findOldestWorkspace, findPausedByOthers} from '../store/workspaces.ts';

export type LookInput = {
	readonly settings: Settings;
	/** The present MAILCTL_MIN_FREE_DISK: it can change while the daemon runs. */
	readonly minFreeDisk: () => number;
	readonly store: Store;
	readonly clock: Clock;
	/** This machine's name. */
	readonly host: string;
	/** This program's version, and that of the one that is installed now. */
	readonly version: string;
	readonly installed: () => string;
	/** By how many milliseconds the clock stepped back since the last call. */
	readonly clockStep: () => number;
	/** Whether the mailbox of bounces could be read the last time; null: none is read here. */
	readonly mailboxUp: () => boolean | null;
};

/** Looks for conditions of one kind. */
export type Look = {readonly kind: AlertKind; readonly look: () => Promise<readonly Condition[]>};

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** Mail that is due is tried within seconds, unless a limit or a long queue keeps it. */
const dueMs = 30 * minuteMs;
const unreadMs = 30 * minuteMs;
const deadMs = dayMs;
const aliveMs = minuteMs;
/** A lost node is no news after this. */
const lostMs = dayMs;
const firstBackupMs = 7 * dayMs;
const leastBackupMs = 26 * hourMs;
/**
 * Conditions of one kind that are looked at. The others raise no alert, and one that leaves the list counts as ended.
 */
const named = {limit: 1000, perWorkspace: 100};
/** Half an hour of failed orders: a CA that is away for minutes is no news. */
const triesOfNews = 3;

/** How each kind is found out, without the internet: from the store, the machine and what doctor looks at here. */
export function looksOf(input: LookInput): readonly Look[] {
	const {settings, store, clock, host} = input;
	const {reader} = store;
	const now = () => clock.now();
	const ago = (milliseconds: number) => storeTime(now() - milliseconds);
	const own = (kind: AlertKind, subject: string, detail: string, fix: string): Condition => ({
		...{kind, subject, workspaceId: null, detail, fix},
	});

	/** What a check of doctor finds wrong on this machine. */
	const checked = (kind: AlertKind, ...checks: readonly Check[]): Look => ({
		kind,
		async look() {
			const found = await Promise.all(
				checks.map(async ({name, look}) => {
					const wrong = (await look()).filter(({status}) => status !== 'ok');
					const detail = wrong.map(one => one.detail).join('; ');
					return wrong.map(({fix}) => own(kind, `${host} ${name}`, `${host}: ${detail}`, fix)).slice(0, 1);
				}),
			);
			return found.flat();
		},
	});

	const blocklists: Look = {
		kind: 'blocklisted',
		look: async () =>
			(await listedNow(reader, now())).map(({source, zone, name, reason, delist}) =>
				own(
					'blocklisted',
					`${source} ${zone}`,
					`${source} is listed by ${name}${reason === null ? '' : `: ${withoutControls(reason)}`}`,
					`fix the cause, then ask for removal: ${delist}`,
				),
			),
	};

	const domains: Look = {
		kind: 'domain_failed',
		look: async () =>
			(await listFailedDomains(reader, named)).map(({name, workspace_id: workspaceId, state}) => ({
				kind: 'domain_failed',
				subject: `${name} ${workspaceId}`,
				workspaceId,
				detail: `${name}: ${state === 'failed' ? 'its records are missing, and it counts as not verified' : 'its records are missing or wrong'}`,
				fix: `mailctl domain show ${name} says what to publish`,
			})),
	};

	const paused: Look = {
		kind: 'workspace_paused',
		look: async () =>
			(await findPausedByOthers(reader, named.limit)).map(({id, name, pause_reason: reason}) => ({
				kind: 'workspace_paused',
				subject: id,
				workspaceId: id,
				detail: `workspace ${name} is paused: ${reason ?? 'no reason was given'}`,
				fix: `find the cause, then mailctl workspace resume ${name}`,
			})),
	};

	const refusing: Look = {
		kind: 'smarthost_refuses',
		look: async () =>
			(await listRefusingRoutes(reader, storeTime(now()))).map(({site, reason}) =>
				own(
					'smarthost_refuses',
					site,
					reason === null ? `the ${site} refuses us` : `${reason} (the ${site})`,
					`${relayAdvice(reason ?? '')}. Its mail waits, and mailctl doctor tries the smarthost`,
				),
			),
	};

	const blocking: Look = {
		kind: 'provider_blocks',
		async look() {
			const sites = await listBlockingSites(reader, storeTime(now()), named.limit);
			// An address on a common blocklist is refused by many hosts, which is one condition for all without an entry of their own.
			return [...groupBy(sites, one => one.provider)].map(([provider, some]) => {
				const names = some.slice(0, 3).map(({site}) => site);
				const more = some.length > names.length ? ` and ${some.length - names.length} more` : '';
				const {reason = null, advice = ''} = some[0] ?? {};
				const detail = `mail to ${names.join(', ')}${more} waits, for our address is blocked there`;
				return own('provider_blocks', provider, reason === null ? detail : `${detail}: ${reason}`, advice);
			});
		},
	};

	const silent: Look = {
		kind: 'smarthost_silent',
		async look() {
			const all = (await listSmarthosts(reader, null)).filter(one => isSilent(one, now()));
			const byWorkspace = groupBy(all, one => one.workspace_id);
			return [...byWorkspace.values()]
				.flatMap(its => its.slice(0, named.perWorkspace))
				.map(one => ({
					kind: 'smarthost_silent',
					subject: one.id,
					workspaceId: one.workspace_id,
					...silenceOf(one),
				}));
		},
	};

	const unread: Look = {
		kind: 'bounces_unread',
		async look() {
			const oldest = await findOldestUnread(reader);
			return [
				...(input.mailboxUp() === false
					? [
							own(
								'bounces_unread',
								`${host} mailbox`,
								`${host}: the mailbox of bounces cannot be read`,
								'mailctl doctor says why',
							),
						]
					: []),
				...(oldest !== null && oldest < ago(unreadMs)
					? [
							own(
								'bounces_unread',
								'store',
								`reports that came in ${oldest.slice(0, 16)} UTC are not read yet`,
								'see that a daemon with the role inbound runs, and its log',
							),
						]
					: []),
			];
		},
	};

	const endpoints: Look = {
		kind: 'webhook_dead',
		look: async () =>
			(await listDeadEndpoints(reader, ago(deadMs), named)).map(({id, url, workspace_id: workspaceId, deadSince}) => ({
				kind: 'webhook_dead',
				subject: id,
				workspaceId,
				detail: `${new URL(url).host} takes no events since ${deadSince.slice(0, 16)} UTC`,
				fix: `mailctl webhook test ${id} shows what it answers; if it is disabled, mailctl webhook enable ${id}`,
			})),
	};

	const queue: Look = {
		kind: 'queue_old',
		async look() {
			const [due, suspended] = await Promise.all([readDue(reader, ago(dueMs)), readSuspensions(reader)]);
			const late = [...new Set(due.map(({destination}) => destination))].filter(one => !suspended.includes(one));
			const names = late.slice(0, 5).join(', ');
			return late.length === 0
				? []
				: [
						own(
							'queue_old',
							'queue',
							`mail to ${late.length > 5 ? `${late.length} destinations, such as ${names},` : names} waits for over 30 minutes though it is due`,
							'mailctl queue summary and mailctl queue why ID show what keeps it',
						),
					];
		},
	};

	const lost: Look = {
		kind: 'node_lost',
		async look() {
			const known = (await listConditions(reader)).filter(
				({kind, ended_at: ended}) => kind === 'node_lost' && ended === null,
			);
			if (known.length === 0) {
				return [];
			}
			const alive = new Set((await listNodes(reader, ago(aliveMs))).map(node => node.host));
			return known
				.filter(({subject, began_at: began}) => !alive.has(subject) && began > ago(lostMs))
				.map(({subject, detail, fix}) => own('node_lost', subject, detail, fix));
		},
	};

	const backup: Look = {
		kind: 'backup_old',
		async look() {
			const {last, previous} = readBackups(settings.dataDir);
			const oldest = last === null && !store.dialect.isShared ? await findOldestWorkspace(reader) : undefined;
			const since = last ?? (oldest ? idTime(oldest.id) : now());
			const usual = last === null ? firstBackupMs : Math.max(leastBackupMs, 2 * (last - (previous ?? last)));
			return now() - since < usual
				? []
				: [
						own(
							'backup_old',
							host,
							`${host}: ${last === null ? 'no backup was made yet' : `the last backup is of ${storeTime(last).slice(0, 16)} UTC`}`,
							'mailctl backup FILE; let a timer do it every day',
						),
					];
		},
	};

	const steps: Look = {
		kind: 'clock',
		async look() {
			const step = input.clockStep();
			return step === 0
				? []
				: [
						own(
							'clock',
							`${host} step`,
							`${host}: the clock was set back by ${Math.round(step / 1000)} s`,
							'keep it by NTP: install chrony or enable systemd-timesyncd',
						),
					];
		},
	};

	const versions: Look = {
		kind: 'version',
		async look() {
			const nodes = await listNodes(reader, ago(aliveMs));
			const running = [...new Set(nodes.map(node => node.version))].toSorted();
			const installed = input.installed();
			return [
				...(running.length > 1
					? [
							own(
								'version',
								'nodes',
								`nodes run ${running.join(' and ')}`,
								'update them all; mailctl node list shows which',
							),
						]
					: []),
				...(installed === input.version
					? []
					: [
							own(
								'version',
								host,
								`${host}: ${installed} is installed, and the daemon is ${input.version}`,
								'restart it',
							),
						]),
			];
		},
	};

	const certificates: Look = {
		kind: 'certificate',
		look: async () =>
			(await listCertificates(reader))
				.filter(({unused}) => unused === null)
				.map(row => ({...row, ...judgeCertificate(row, now())}))
				.filter(({status, not_after: until, fault, tries}) => {
					const isOld = fault === null ? until !== null : tries >= triesOfNews;
					// One that ends is news after one failed order too, as when an operator has just asked for it.
					return status === 'fail' || (status === 'warn' && isOld);
				})
				.map(({name, detail, fix}) => own('certificate', name, detail, fix)),
	};

	return [
		...[
			blocklists,
			domains,
			paused,
			blocking,
			refusing,
			silent,
			unread,
			endpoints,
			queue,
			lost,
			backup,
			steps,
			versions,
		],
		checked('disk', diskCheck(settings.dataDir, input.minFreeDisk)),
		checked('certificate', ...certificateChecks(settings, clock).filter(check => check !== noCertificateCheck)),
		...(settings.acme ? [certificates] : []),
		...(store.dialect.isShared ? [checked('clock', databaseClockCheck(store))] : []),
	];
}

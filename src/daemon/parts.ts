import {hostname} from 'node:os';
import type {Logger} from 'pino';
import type {LiveSettings, Settings} from '../config/settings.ts';
import {openRecordSources} from '../dns/record-sources.ts';
import {sendingNames} from '../domains/domain-records.ts';
import type {Clock} from '../kit/clock.ts';
import type {MailLog} from '../log/mail-events.ts';
import type {NewId} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {TriedRecipient} from '../outcome/settle.ts';
import type {SiteChange} from '../pace/site-state.ts';
import type {Site} from '../queue/site.ts';
import {type Guard, startGuard} from '../reputation/guard.ts';
import {isErased} from '../store/retention.ts';
import type {MasterKeys, Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {createDomainChecks, type DomainChecks} from './domain-checks.ts';
import {createEngine, type Engine} from './engine.ts';
import {createInbound, type Inbound} from './inbound.ts';
import type {LiveRules} from './live-rules.ts';
import type {Metrics} from './metrics.ts';
import type {Telling} from './telling.ts';
import {createWebhooks, type Webhooks} from './webhooks.ts';

/** What the parts of the daemon are made of. */
export type PartsOptions = {
	readonly settings: Settings;
	/** The settings as they are now. */
	readonly live: () => LiveSettings;
	readonly version: string;
	readonly store: Store;
	readonly keys: MasterKeys;
	readonly vault: Vault;
	readonly rules: LiveRules;
	readonly clock: Clock;
	readonly newId: NewId;
	/** This daemon's claims, and what it takes in, bear this id. */
	readonly boot: string;
	/** Whether there is room for new mail. */
	readonly hasRoom: () => boolean;
	/** Takes events to the webhooks. */
	readonly eventWriter: EventWriter;
	/** Lets the whole process forget what it remembers of the store. */
	readonly forget: () => void;
	/** Removes the captured mails of copies. */
	readonly uncapture: (recipientIds: readonly string[]) => Promise<void>;
	readonly telling: Telling;
	readonly metrics: Metrics;
	readonly mailLog: MailLog;
	readonly onStoreError: (error: unknown) => void;
	readonly logger: Logger;
};

/** The role `deliver`. `publicUrl`: base of the links in mail. */
export function makeEngine(options: PartsOptions, publicUrl: string): Engine {
	const {store, live, telling, onStoreError, logger} = options;

	/** A mail may be captured while its recipient is erased. */
	async function removeIfErased({id}: TriedRecipient): Promise<void> {
		if (await isErased(store.reader, id)) {
			await options.uncapture([id]);
		}
	}

	return createEngine({
		...options,
		publicUrl,
		bounceRules: options.rules.current,
		retry: () => ({schedule: live().retrySchedule, lifetime: live().queueLifetime}),
		observer: {
			recorded: telling.recorded,
			lost: recipient => void removeIfErased(recipient).catch(onStoreError),
			faulted: telling.recipientFault,
			siteChanged: (site, changes) => logSite(logger, site, changes),
			routeNotFound: telling.routeNotFound,
		},
		onResourceFault: telling.resourceFault,
		onCrash: reason => noteCrash(logger, reason),
		onPolicyFailure({domain, failure, kept, reason}) {
			logger.warn({event: 'mta_sts_failed', domain, failure, kept}, reason);
		},
	});
}

/** The role `webhook`. */
export function makeWebhooks(options: PartsOptions): Webhooks {
	const {telling, logger} = options;
	return createWebhooks({
		...options,
		onAttempted: telling.posted,
		onFault: error => logger.error({event: 'webhook_fault', err: error}),
		onSecretFault: telling.webhookSecretFault,
		onCrash: reason => noteCrash(logger, reason),
	});
}

/** The role `inbound`. */
export function makeInbound(options: PartsOptions): Inbound {
	const {live, rules, logger} = options;
	return createInbound({
		...options,
		retentionDays: () => live().retentionDays,
		bounceRules: rules.current,
		onCrash: reason => noteCrash(logger, reason),
	});
}

/** Looks after the workspaces' reputation, in every process. */
export function startReputationGuard(options: PartsOptions): Guard {
	const {store, live, forget, telling, onStoreError} = options;
	return startGuard({
		store,
		limits: () => live().reputation,
		acting: actingOf(options),
		onJudged(judged) {
			// Its sends are refused from now on, not when the change is noticed.
			if (judged.kind === 'paused') {
				forget();
			}
			telling.judged(judged);
		},
		onError: onStoreError,
	});
}

/** Checks the DNS records of sender domains, where mail leaves the machine. */
export function makeDomainChecks(options: PartsOptions): DomainChecks {
	const {settings, store, clock, telling, onStoreError} = options;
	return createDomainChecks({
		store,
		names: sendingNames(settings),
		openSources: () => openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
		acting: actingOf(options),
		onChecked: telling.domainChecked,
		onStoreError,
	});
}

/** What the daemon does by itself is recorded as its own act. */
export function actingOf({clock, newId}: Pick<PartsOptions, 'clock' | 'newId'>): Acting {
	return {clock, newId, operator: {actor: 'daemon', from: hostname()}};
}

function noteCrash(logger: Logger, reason: string): void {
	logger.error({event: 'worker_ended', reason});
}

/** Tells the operator of a smarthost that refuses us, once, and that it takes mail again; of other sites what they wait for. */
export function logSite(logger: Logger, {name, state}: Site, changes: readonly SiteChange[]): void {
	const reason = state.backoff?.reason;
	if (changes.includes('route_stopped')) {
		const text =
			'A smarthost refuses us: its mail waits, none is lost. Check its address and password (mailctl doctor).';
		logger.error({event: 'route_stopped', site: name, reply: reason}, text);
	} else if (changes.includes('route_resumed')) {
		logger.error({event: 'route_resumed', site: name}, 'The smarthost takes mail again.');
	} else if (changes.includes('backed_off')) {
		logger.info({event: 'site_suspended', site: name, reply: reason});
	} else if (changes.includes('resumed')) {
		logger.info({event: 'site_resumed', site: name});
	}
}

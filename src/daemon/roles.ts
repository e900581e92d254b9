import {hostname} from 'node:os';
import process from 'node:process';
import type {Settings} from '../config/settings.ts';
import {readBoot, writeBoot} from '../data-folder/daemon-file.ts';
import {openRecordSources} from '../dns/resolver.ts';
import {sendingNames} from '../domains/domain-records.ts';
import type {QueueKey} from '../mail/route.ts';
import {type Guard, startGuard} from '../reputation/guard.ts';
import {createArrivalNotices} from './arrivals.ts';
import {actingOf, type Context} from './context.ts';
import {createDomainChecks, type DomainChecks} from './domain-checks.ts';
import {createEngine, type Engine} from './engine.ts';
import {createInbound, type Inbound} from './inbound.ts';
import {createPresence} from './presence.ts';
import {createWebhooks, type Webhooks} from './webhooks.ts';

/** What this process does apart from HTTP, by MAILCTL_ROLES: it delivers, posts webhooks, receives reports. */
export function createRoles(context: Context) {
	const {settings, store, clock, boot, observer} = context;
	const {logger, storeFailed} = observer;
	const has = (role: Settings['roles'][number]) => settings.roles.includes(role);
	const isShared = store.dialect.isShared;
	const tell = createArrivalNotices({store, boot, onError: storeFailed});
	let engine: Engine | null = null;
	let webhooks: Webhooks | null = null;
	let domainChecks: DomainChecks | null = null;
	let inbound: Inbound | null = null;
	let guard: Guard | null = null;
	const presence = createPresence({
		store,
		node: {id: boot, host: hostname(), pid: process.pid, version: context.version, roles: settings.roles},
		former: readBoot(settings.dataDir),
		onBegin: () => writeBoot(settings.dataDir, boot),
		clock,
		onReleased: rescan,
		onError: storeFailed,
	});

	/** Another process changed what is queued or due. */
	function rescan(): void {
		void engine?.scheduler.rescan();
		void webhooks?.rescan().catch(storeFailed);
	}

	return {
		/** Endpoints have deliveries that are due. */
		due: (endpointIds: readonly string[]): void => webhooks?.due(endpointIds),
		/** The reputation figures of workspaces changed. */
		counted: (workspaceIds: readonly string[]): void => guard?.counted(workspaceIds),

		/** Resolves with the address of the listener for reports, `host:port`; null without one. */
		async start(publicUrl: string): Promise<string | null> {
			let inboundAddress: string | null = null;
			if (has('deliver') || has('webhook') || isShared) {
				await presence.begin();
			}
			if (has('webhook')) {
				webhooks = createWebhooks(context);
				await webhooks.start();
			}
			if (has('deliver')) {
				engine = createEngine(context, publicUrl);
				await engine.start();
			}
			if (has('inbound')) {
				inbound = createInbound(context);
				inboundAddress = await inbound.start();
			}
			guard = startReputationGuard(context);
			// Where nothing leaves the machine, no records are needed, and no DNS.
			if (has('deliver') && settings.delivery !== 'capture') {
				domainChecks = makeDomainChecks(context);
				domainChecks.start();
			}
			return inboundAddress;
		},

		/** The writer has mail for these queues. */
		arriving: (queues: Iterable<QueueKey>): void => engine?.scheduler.arriving(queues),
		/** Mail of these queues is stored. Other nodes may take what must wait on this node, or is not delivered by it. */
		accepted(queues: Iterable<QueueKey>): void {
			if (isShared && presence.hasPeers()) {
				tell(engine === null ? queues : [...queues].filter(queue => engine?.scheduler.isWaiting(queue)));
			}
		},
		/** Whether an outcome waits for the store. */
		storeFailing: (): boolean => engine?.scheduler.storeFailing === true,
		sites: () => engine?.scheduler.sites() ?? [],
		inboundSessions: () => inbound?.sessions() ?? null,
		mailbox: () => inbound?.mailbox() ?? null,

		/** Drops what is cached of the store. */
		forget(): void {
			engine?.forget();
			webhooks?.forget();
			inbound?.forget();
		},

		rescan,

		/** Another process changed domains. */
		recheckDomains: (): void => domainChecks?.rescan(),

		/** Applies changed settings. `renewed`: the rules for refusals changed. `certificates`: reads the submission's. */
		reload({renewed, certificates}: {readonly renewed: boolean; readonly certificates: () => void}): void {
			if (renewed) {
				engine?.renewBounceRules();
				inbound?.renewBounceRules();
			}
			for (const readAgain of [() => inbound?.reload(), certificates]) {
				try {
					readAgain();
				} catch (error) {
					logger.error({event: 'certificate_refused', err: error}, 'The certificate that was read before still holds.');
				}
			}
			engine?.renewDestinations();
		},

		/** Takes nothing new and ends what is under way. */
		async drain(): Promise<void> {
			await Promise.all([engine?.drain(), webhooks?.drain(), domainChecks?.stop(), inbound?.drain()]);
		},

		/** After `drain`: gives back what is still claimed. */
		async end(): Promise<void> {
			await guard?.stop();
			// Claims that cannot be given back now are at the next start, or by another node.
			await presence.end().catch(storeFailed);
			await engine?.stop();
		},
	};
}

/** Watches the reputation of workspaces, in every process. */
function startReputationGuard(context: Context): Guard {
	const {store, live, forget, observer} = context;
	return startGuard({
		store,
		limits: () => live().reputation,
		acting: actingOf(context),
		onJudged(judged) {
			// Sends of a paused workspace are refused at once, not when the change is noticed.
			if (judged.kind === 'paused') {
				forget();
			}
			observer.judged(judged);
		},
		onError: observer.storeFailed,
	});
}

/** Checks the DNS records of sender domains, where mail leaves the machine. */
function makeDomainChecks(context: Context): DomainChecks {
	const {settings, store, clock, observer} = context;
	return createDomainChecks({
		store,
		names: sendingNames(settings),
		openSources: () => openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
		acting: actingOf(context),
		observer,
	});
}

import {hostname} from 'node:os';
import process from 'node:process';
import type {Settings} from '../config/settings.ts';
import {readBoot, writeBoot} from '../data-folder/daemon-file.ts';
import type {QueueKey} from '../mail/route.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {Guard} from '../reputation/guard.ts';
import {createArrivalNotices} from './arrivals.ts';
import type {DomainChecks} from './domain-checks.ts';
import type {Engine} from './engine.ts';
import type {Inbound} from './inbound.ts';
import {
	makeDomainChecks,
	makeEngine,
	makeInbound,
	makeWebhooks,
	type PartsOptions,
	startReputationGuard,
} from './parts.ts';
import {createPresence} from './presence.ts';
import type {Webhooks} from './webhooks.ts';

/** `forget` calls the one below too. */
export type RolesOptions = Omit<PartsOptions, 'eventWriter'>;

/** What this process does besides HTTP, by MAILCTL_ROLES: it delivers, posts webhooks, takes reports in. */
export function createRoles(options: RolesOptions) {
	const {settings, live, store, clock, newId, boot, onStoreError, logger} = options;
	const has = (role: Settings['roles'][number]) => settings.roles.includes(role);
	const isShared = store.dialect.isShared;
	const tell = createArrivalNotices({store, boot, onError: onStoreError});
	let engine: Engine | null = null;
	let webhooks: Webhooks | null = null;
	let domainChecks: DomainChecks | null = null;
	let inbound: Inbound | null = null;
	let guard: Guard | null = null;

	/** Every event passes here on its way to the webhooks. */
	const eventWriter: EventWriter = {
		newId,
		onDue: endpointIds => webhooks?.due(endpointIds),
		onCounted: workspaceIds => guard?.counted(workspaceIds),
	};
	const parts: PartsOptions = {...options, eventWriter};
	const presence = createPresence({
		store,
		node: {id: boot, host: hostname(), pid: process.pid, version: options.version, roles: settings.roles},
		former: readBoot(settings.dataDir),
		onBegin: () => writeBoot(settings.dataDir, boot),
		clock,
		onReleased: rescan,
		onError: onStoreError,
	});

	/** Others changed what is queued or due. */
	function rescan(): void {
		void engine?.scheduler.rescan();
		void webhooks?.rescan().catch(onStoreError);
	}

	return {
		eventWriter,

		/** Resolves with the address of the listener for reports, `host:port`; null: there is none. */
		async start(publicUrl: string): Promise<string | null> {
			let inboundAddress: string | null = null;
			if (has('deliver') || has('webhook') || isShared) {
				await presence.begin();
			}
			if (has('webhook')) {
				webhooks = makeWebhooks(parts);
				await webhooks.start();
			}
			if (has('deliver')) {
				engine = makeEngine(parts, publicUrl);
				await engine.start();
			}
			if (has('inbound')) {
				inbound = makeInbound(parts);
				inboundAddress = await inbound.start();
			}
			guard = startReputationGuard(parts);
			// Where nothing leaves the machine, no records are needed, and no DNS.
			if (has('deliver') && settings.delivery !== 'capture') {
				domainChecks = makeDomainChecks(parts);
				domainChecks.start();
			}
			return inboundAddress;
		},

		/** Mail for these lanes was handed to the writer. */
		arriving: (queues: Iterable<QueueKey>): void => engine?.scheduler.arriving(queues),
		/** Mail of these lanes is stored: what this node has to let wait, or does not deliver, others may take. */
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

		/** What is remembered of the store is read again. */
		forget(): void {
			engine?.forget();
			webhooks?.forget();
			inbound?.forget();
		},

		rescan,

		/** Others changed domains: one may be new. */
		recheckDomains: (): void => domainChecks?.rescan(),

		/** Follows the settings as they are now. `renewed`: the rules for refusals are others. `certificates`: reads the submission's. */
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
			const problems = engine?.reload(live()) ?? [];
			if (problems.length > 0) {
				logger.error({event: 'destinations_refused', problems}, 'The destinations that were read before still hold.');
			}
		},

		/** Takes nothing new and ends what is under way. */
		async drain(): Promise<void> {
			await Promise.all([engine?.drain(), webhooks?.drain(), domainChecks?.stop(), inbound?.drain()]);
		},

		/** After `drain`: gives back what is still claimed. */
		async end(): Promise<void> {
			await guard?.stop();
			// Claims that cannot be given back now are at the next start, or by another node.
			await presence.end().catch(onStoreError);
			await engine?.stop();
		},
	};
}

export type Roles = ReturnType<typeof createRoles>;

import {hostname} from 'node:os';
import process from 'node:process';
import type {Settings} from '../config/settings.ts';
import type {Arrival, QueueKey} from '../mail/route.ts';
import {openRecordSources} from '../net/resolver.ts';
import {type Guard, startGuard} from '../outcome/reputation-guard.ts';
import type {SiteReport} from '../queue/site.ts';
import {sendingNames} from '../resources/domains/domain-records.ts';
import {readBoot, writeBoot} from '../store/data-folder/daemon-file.ts';
import {watchBlocklists} from './blocklist-checks.ts';
import {type Context, toActing} from './context.ts';
import {Engine} from './engine.ts';
import {Inbound} from './inbound.ts';
import {ArrivalNotices, Presence} from './peers.ts';
import {watchTlsReports} from './tls-reports.ts';
import {DomainChecks} from './upkeep.ts';
import {createWebhooks, type Webhooks} from './webhook-posting.ts';

/** The work of this process besides HTTP, according to MAILCTL_ROLES: delivery, webhooks and inbound mail. */
export class Roles {
	readonly #context: Context;
	readonly #notices: ArrivalNotices;
	readonly #presence: Presence;
	#engine: Engine | null = null;
	#webhooks: Webhooks | null = null;
	#domainChecks: DomainChecks | null = null;
	#blocklistChecks: ReturnType<typeof watchBlocklists> | null = null;
	#tlsReports: ReturnType<typeof watchTlsReports> | null = null;
	#inbound: Inbound | null = null;
	#guard: Guard | null = null;

	constructor(context: Context) {
		const {settings, store, clock, boot, version, observer} = context;
		this.#context = context;
		this.#notices = new ArrivalNotices(store, boot, observer);
		this.#presence = new Presence({
			store,
			node: {id: boot, host: hostname(), pid: process.pid, version, roles: settings.roles},
			former: readBoot(settings.dataDir),
			onBegin: () => writeBoot(settings.dataDir, boot),
			clock,
			onReleased: () => this.rescan(),
			observer,
		});
	}

	/** Dispatches the deliveries of these endpoints that are due. */
	due(endpointIds: readonly string[]): void {
		this.#webhooks?.due(endpointIds);
	}

	/** Starts reading events that a provider posted. */
	wakeReading(): void {
		this.#inbound?.wake();
	}

	/** Checks workspaces whose reputation figures have changed. */
	counted(workspaceIds: readonly string[]): void {
		this.#guard?.counted(workspaceIds);
	}

	/** Resolves with the address of the listener for reports, as `host:port`, or `null` without one. */
	async start(publicUrl: string): Promise<string | null> {
		const {settings, store} = this.#context;
		let inboundAddress: string | null = null;
		if (this.#has('deliver') || this.#has('webhook') || store.dialect.isShared) {
			await this.#presence.begin();
		}
		if (this.#has('webhook')) {
			this.#webhooks = createWebhooks(this.#context);
			await this.#webhooks.start();
		}
		if (this.#has('deliver')) {
			this.#engine = new Engine(this.#context, publicUrl);
			await this.#engine.start();
		}
		if (this.#has('inbound')) {
			this.#inbound = new Inbound(this.#context);
			inboundAddress = await this.#inbound.start();
		}
		this.#guard = startReputationGuard(this.#context);
		// If nothing leaves the machine, neither records nor DNS are needed.
		if (this.#has('deliver') && settings.delivery !== 'capture') {
			this.#domainChecks = createDomainChecks(this.#context);
			this.#domainChecks.start();
			this.#blocklistChecks = watchBlocklists(this.#context);
			void this.#blocklistChecks.check();
			this.#tlsReports = settings.tlsReports ? watchTlsReports(this.#context) : null;
			void this.#tlsReports?.sendDue();
		}
		return inboundAddress;
	}

	/** Prepares for mail that is being written for these queues. */
	arriving(queues: Iterable<Arrival>): void {
		this.#engine?.arriving(queues);
	}

	/** Notifies other nodes of stored mail in these queues that has to wait here or is not delivered by this node. */
	accepted(queues: Iterable<QueueKey>): void {
		if (this.#context.store.dialect.isShared && this.#presence.hasPeers()) {
			const scheduler = this.#engine?.scheduler;
			this.#notices.send(
				scheduler === undefined ? queues : [...queues].filter(queue => scheduler.isWaiting(queue)),
			);
		}
	}

	/** Whether an outcome is waiting to be written, or the node's own heartbeat failed. */
	isStoreFailing(): boolean {
		return this.#presence.isFailing() || this.#engine?.scheduler.isStoreFailing === true;
	}

	sites(): SiteReport[] {
		return this.#engine?.scheduler.sites() ?? [];
	}

	inboundSessions() {
		return this.#inbound?.sessions() ?? null;
	}

	mailbox() {
		return this.#inbound?.mailbox() ?? null;
	}

	/** Drops everything cached from the store. */
	forget(): void {
		this.#engine?.forget();
		this.#webhooks?.forget();
		this.#inbound?.forget();
	}

	/** Reads the queues again, because another process has changed what is queued or due. */
	rescan(): void {
		void this.#engine?.scheduler.rescan();
		void this.#webhooks?.rescan().catch(this.#context.observer.storeFailed);
	}

	recheckDomains(): void {
		this.#domainChecks?.rescan();
	}

	/** Applies changed settings. `certificates` reads the submission listener's certificate again. */
	reload({hasNewBounceRules, certificates}: Readonly<{hasNewBounceRules: boolean; certificates: () => void}>): void {
		if (hasNewBounceRules) {
			this.#engine?.renewBounceRules();
			this.#inbound?.renewBounceRules();
		}
		for (const reloadCertificate of [() => this.#inbound?.reload(), certificates]) {
			try {
				reloadCertificate();
			} catch (error) {
				const text = 'The previous certificate remains in use.';
				this.#context.observer.logger.error({event: 'certificate_refused', err: error}, text);
			}
		}
		this.#engine?.renewDestinations();
	}

	/** Accepts nothing new and finishes what is under way. */
	async drain(): Promise<void> {
		await Promise.all([this.#blocklistChecks?.stop(), this.#tlsReports?.stop()]);
		await Promise.all([
			this.#engine?.drain(),
			this.#webhooks?.drain(),
			this.#domainChecks?.stop(),
			this.#inbound?.drain(),
		]);
	}

	/** Call this after `drain`. Releases what is still claimed. */
	async end(): Promise<void> {
		await this.#guard?.stop();
		// Claims that cannot be released now are released at the next start or by another node.
		await this.#presence.end().catch(this.#context.observer.storeFailed);
		await this.#engine?.stop();
	}

	#has(role: Settings['roles'][number]): boolean {
		return this.#context.settings.roles.includes(role);
	}
}

/** Watches the reputation of workspaces, which every process does. */
function startReputationGuard(context: Context): Guard {
	const {store, live, forget, observer} = context;
	return startGuard({
		store,
		limits: () => live().reputation,
		acting: toActing(context),
		onJudged(judged) {
			// Sends of a paused workspace are rejected at once, not only when the change is noticed.
			if (judged.kind === 'paused') {
				forget();
			}
			observer.judged(judged);
		},
		onError: observer.storeFailed,
	});
}

/** Creates the checks of the DNS records of sender domains. */
function createDomainChecks(context: Context): DomainChecks {
	const {settings, store, clock, observer} = context;
	return new DomainChecks({
		store,
		names: sendingNames(settings),
		openSources: () =>
			openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
		acting: toActing(context),
		observer,
	});
}

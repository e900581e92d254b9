import {Worker} from 'node:worker_threads';
import type {Settings} from '../config/settings.ts';
import {webhookCa} from '../config/settings.ts';
import {threadLimits} from '../kit/memory.ts';
import {entryPoint} from '../kit/program-files.ts';
import {takeSteps} from '../kit/steps.ts';
import {storeTime} from '../kit/time.ts';
import type {NewId} from '../mail/ids.ts';
import {webhookBody} from '../mail/webhook.ts';
import {toGuard} from '../resources/webhooks/address-guard.ts';
import {WebhookDispatcher} from '../resources/webhooks/dispatch.ts';
import {type PostResult, PostThread, type Signing, signingAt} from '../resources/webhooks/post.ts';
import {
	type ClaimedDelivery,
	deliveryClaims,
	readDueEndpoints,
	readEndpointWork,
} from '../resources/webhooks/queue-store.ts';
import {type Endpoint, hasEndpoints} from '../resources/webhooks/store.ts';
import {releaseUnknown} from '../store/held-claims.ts';
import {purgeEndpoints} from '../store/retention.ts';
import type {Vault} from '../store/sealed.ts';
import type {Context} from './context.ts';
import {watchArrivals} from './peers.ts';
import type {PosterData} from './threads/poster.ts';
import {createPosting, type PostingOptions} from './threads/posting.ts';

/** How often to check for events that another node wrote, in milliseconds. */
const arrivalsMs = 1000;

const rowsPerPurge = 500;

/** Creates the daemon's webhooks from the settings. */
export function createWebhooks(context: Context) {
	const {store, clock, observer} = context;
	const thread = createThread(context);
	const dispatcher = createDispatcher(context, thread);
	let arrivals: {stop: () => void} | null = null;
	let isPurging = false;

	/** Removes the rows of deleted endpoints in steps, because others need the writer too. */
	async function purge(): Promise<void> {
		if (isPurging) {
			return;
		}
		isPurging = true;
		try {
			await takeSteps(() => store.writer.transaction(trx => purgeEndpoints(trx, rowsPerPurge)), clock);
		} catch (error) {
			observer.storeFailed(error);
		} finally {
			isPurging = false;
		}
	}

	return {
		async start(): Promise<void> {
			// The thread takes a moment to start. It is not needed without endpoints; otherwise no attempt should wait
			// for it.
			if (await hasEndpoints(store.reader)) {
				thread.start();
			}
			await dispatcher.start();
			void purge();
			if (store.dialect.isShared) {
				arrivals = watchArrivals({
					readDue: () => readDueEndpoints(store.reader, storeTime(clock.now())),
					onDue: endpointIds => dispatcher.due(endpointIds),
					observer,
					clock,
					periodMs: arrivalsMs,
				});
			}
		},
		due: (endpointIds: readonly string[]): void => dispatcher.due(endpointIds),
		/** Drops cached work, so that no attempt starts with old data. */
		forget: (): void => dispatcher.recall(),
		/** Call this when others have changed endpoints or deliveries. */
		async rescan(): Promise<void> {
			void purge();
			await dispatcher.rescan();
		},
		async drain(): Promise<void> {
			arrivals?.stop();
			await dispatcher.stop();
			await thread.stop();
		},
	};
}

function createThread({settings, version, store, clock, observer}: Context): PostThread {
	return new PostThread({
		spawn: () =>
			new Worker(entryPoint('daemon/threads/poster'), {
				workerData: {...toPosting(settings, version), time: store.clock.memory} satisfies PosterData,
				resourceLimits: threadLimits.poster,
			}),
		clock,
		observer,
	});
}

function createDispatcher(context: Context, thread: PostThread): WebhookDispatcher {
	const {settings, store, vault, boot, clock, observer, eventWriter} = context;

	async function post(delivery: ClaimedDelivery): Promise<PostResult | null> {
		const {id, endpointId, url, body} = delivery;
		let signing: Signing;
		try {
			signing = openSigning(vault, endpointId, signingAt(delivery, storeTime(clock.now())));
		} catch (error) {
			observer.webhookSecretProblem(error, endpointId);
			return null;
		}
		return await thread.post({id, url, body, signing});
	}

	return new WebhookDispatcher({
		...settings.webhookConcurrency,
		writer: store.writer,
		eventWriter,
		boot,
		readWork: () => readEndpointWork(store.reader),
		releaseUnknown: known =>
			store.writer.transaction(trx => releaseUnknown(trx, deliveryClaims, boot, known(), storeTime(clock.now()))),
		post,
		backoffMs: settings.webhookBackoff,
		clock,
		onStoreError: observer.storeFailed,
		observer,
	});
}

export type Webhooks = ReturnType<typeof createWebhooks>;

/** Decrypts the secrets. */
function openSigning(vault: Vault, endpointId: string, {secret, next}: Signing): Signing {
	return {
		secret: vault.open(endpointId, secret),
		next: next === null ? null : vault.open(endpointId, next),
	};
}

type PostingSettings = Pick<
	Settings,
	| 'caFile'
	| 'webhookCaFile'
	| 'webhookAllowCidrs'
	| 'delivery'
	| 'dnsServers'
	| 'webhookTimeout'
	| 'webhookConcurrency'
>;

/** Returns the options for posting to endpoints, from the settings. */
export function toPosting(settings: PostingSettings, version: string): PostingOptions {
	return {
		ca: webhookCa(settings),
		...toGuard(settings),
		dnsServers: settings.dnsServers,
		timeoutMs: settings.webhookTimeout,
		maxIdle: settings.webhookConcurrency.total,
		userAgent: `mailctl/${version}`,
	};
}

type ExampleOptions = Pick<Context, 'version' | 'vault' | 'clock'> & {
	readonly settings: PostingSettings;
	readonly newId: NewId;
};

/** Posts a signed example event to an endpoint now, from this thread, as a delivery would be. Stores nothing. */
export async function postExample(
	{settings, version, vault, clock, newId}: ExampleOptions,
	endpoint: Endpoint,
): Promise<PostResult> {
	const {id, workspaceId, url, events, format} = endpoint;
	const [type = 'delivered'] = events;
	const now = storeTime(clock.now());
	const hasNoMessage = type === 'domain_changed' || type === 'endpoint_disabled';
	const ids = hasNoMessage
		? {messageId: null, recipient: null}
		: {messageId: newId('msg'), recipient: 'user@example.com'};
	const event = {...ids, id: newId('evt'), type, workspaceId, occurredAt: now, detail: {}};
	const message = {metadata: null, tags: null, templateId: newId('tpl'), subject: 'Example'};
	const body = webhookBody(event, hasNoMessage ? undefined : message, format ?? 'default');
	const signing = openSigning(vault, id, signingAt(endpoint, now));
	const poster = createPosting(toPosting(settings, version), clock);
	try {
		return await poster.post({id: newId('whd'), url, signing, body: Buffer.from(body)});
	} finally {
		poster.close();
	}
}

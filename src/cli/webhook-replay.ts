import type {Command} from 'commander';
import {replay} from '../admin/webhooks.ts';
import {deliveryView} from '../api/views.ts';
import {type WebhookEventType, webhookEventTypes} from '../mail/event.ts';
import {storeTime} from '../mail/time.ts';
import {type DeliveryState, deliveryStates, mostEndpoints} from '../mail/webhook.ts';
import {beginAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {replayDeliveries} from '../store/webhook-deliveries.ts';
import {listEndpoints} from '../store/webhook-endpoints.ts';
import {chosenEndpoint, deliveryState, webhookEvent} from './endpoint.ts';
import {CliError} from './fault.ts';
import {past} from './options.ts';
import {verb} from './program.ts';
import {createProgress, grouped} from './progress.ts';
import {action, type Session} from './session.ts';
import {chosenDelivery} from './webhook-deliveries.ts';

type Options = {since?: number; event?: WebhookEventType; endpoint?: string; status?: DeliveryState};

const rowsPerStep = 1000;

export function replayVerb(webhook: Command): void {
	verb(
		webhook,
		'replay [id]',
		'Post a delivery again, or all since a time',
		'mailctl webhook replay --since 4h --endpoint whe_06f… --status exhausted',
	)
		.option('--since <time>', 'all whose event came then or later: a time, or a duration before now', past('--since'))
		.option('--event <event>', `only of this type: ${webhookEventTypes.join(', ')}`, webhookEvent)
		.option('--endpoint <id>', 'only of this endpoint')
		.option('--status <status>', `only those that are ${deliveryStates.join(', ')}`, deliveryState)
		.action(
			action<Options, [string | undefined]>(async (session, options, id) => {
				if ((id === undefined) === (options.since === undefined)) {
					throw new CliError('usage', 'name either one delivery or --since', 'see mailctl webhook replay --help');
				}
				if (id === undefined) {
					await replayAll(session, options.since ?? 0, options);
				} else {
					await replayOne(session, id);
				}
			}),
		);
}

async function replayOne(session: Session, id: string): Promise<void> {
	await chosenDelivery(session, id);
	const {id: workspaceId} = await session.workspace();
	const replayed = await session.write(trx => replay(trx, session.tools, workspaceId, id));
	if (replayed) {
		session.show(deliveryView(replayed), () => [`${id} is due now`]);
	}
}

/** Step by step: a daemon that runs writes too. What comes meanwhile is not replayed. */
async function replayAll(session: Session, since: number, {event, endpoint, status}: Options): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const {clock} = session.tools;
	const all = await listEndpoints(await session.reader(), workspaceId, {after: null, limit: mostEndpoints});
	const endpoints = endpoint === undefined ? all : [await chosenEndpoint(session, endpoint)];
	const until = clock.now();
	const progress = createProgress(session.terminal, clock, 'deliveries');
	const record = beginAct(session.tools, {action: 'webhook.replayed', workspaceId, target: endpoint ?? null});
	let replayed = 0;
	for (const {id: endpointId} of endpoints) {
		const filter = {workspaceId, endpointId, since, until, eventType: event, state: status};
		for (let after: string | null | undefined = null; after !== undefined; ) {
			const step = {after, limit: rowsPerStep, now: storeTime(clock.now())};
			const ids: string[] = await session.write(async trx => {
				await bumpGeneration(trx);
				const restarted = await replayDeliveries(trx, filter, step);
				await record(trx, {since: storeTime(since), event, status, deliveries: replayed + restarted.length});
				return restarted;
			});
			replayed += ids.length;
			progress.show(replayed, null);
			after = ids.length === rowsPerStep ? ids.at(-1) : undefined;
		}
	}
	progress.end();
	session.show({replayed}, () => [`${grouped(replayed)} deliveries are due now`]);
}

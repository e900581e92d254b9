import {type WebhookEventType, webhookEventTypes} from '../mail/event.ts';
import {isId} from '../mail/ids.ts';
import {type DeliveryState, deliveryStates} from '../mail/webhook.ts';
import {type Endpoint, findEndpoint} from '../store/webhook-endpoints.ts';
import {CliError} from './fault.ts';
import type {Session} from './session.ts';

/** Throws bad data (65) where the workspace has no such endpoint. */
export async function chosenEndpoint(session: Session, id: string): Promise<Endpoint> {
	const {id: workspaceId} = await session.workspace();
	const found = isId('whe', id) ? await findEndpoint(await session.reader(), workspaceId, id) : undefined;
	return found ?? missingEndpoint(id);
}

export function missingEndpoint(id: string): never {
	throw new CliError('data', `there is no endpoint ${id}`, 'see mailctl webhook list');
}

/** Throws a usage error (64). */
export function webhookEvent(text: string): WebhookEventType {
	const known = webhookEventTypes.find(each => each === text);
	if (!known) {
		throw new CliError('usage', `--event "${text}" is not allowed`, `use ${webhookEventTypes.join(', ')}`);
	}
	return known;
}

/** Throws a usage error (64). */
export function deliveryState(text: string): DeliveryState {
	const known = deliveryStates.find(each => each === text);
	if (!known) {
		throw new CliError('usage', `--status "${text}" is not allowed`, `use ${deliveryStates.join(', ')}`);
	}
	return known;
}

export function endpointState({disabledAt, failingSince}: Endpoint): string {
	if (disabledAt !== null) {
		return 'disabled';
	}
	return failingSince === null ? 'active' : 'failing';
}

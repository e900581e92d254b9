import type {Answer, Api, Failure, List} from '../helpers/api-client.ts';
import type {Service, Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

export type Accepted = {readonly id: string; readonly status: string};

export type Message = {
	readonly id: string;
	readonly status: string;
	readonly to: string;
	readonly from: string;
	readonly reply_to: string | null;
	readonly cc: readonly string[];
	readonly attachments: ReadonlyArray<{readonly filename: string; readonly content_type: string}>;
	readonly subject: string | null;
	readonly template_id: string;
	readonly template_name: string;
	readonly template_version: number;
	readonly data: object;
	readonly metadata: Readonly<Record<string, string>>;
	readonly tags: readonly string[];
	readonly created_at: string;
	readonly updated_at: string;
	readonly mode: string;
};

export type TimelineEvent = {
	readonly id: string;
	readonly type: string;
	readonly occurred_at: string;
	readonly recorded_at: string;
	readonly detail?: Readonly<Record<string, unknown>>;
};

export type Suppression = {
	readonly id: string;
	readonly recipient: string;
	readonly reason: string;
	readonly source: string;
	readonly created_at: string;
};

export type Topic = {readonly id: string; readonly code: string; readonly name: string; readonly created_at: string};

export type Endpoint = {
	readonly id: string;
	readonly url: string;
	readonly events: readonly string[];
	readonly active: boolean;
	readonly signing_secret: string;
	readonly created_at: string;
};

export type WebhookBody = {
	readonly type: string;
	readonly message_id: string;
	readonly recipient: string;
	readonly occurred_at: string;
	readonly metadata: Readonly<Record<string, string>>;
};

export type Delivery = {
	readonly id: string;
	readonly event_type: string;
	readonly status: string;
	readonly attempts: number;
	readonly payload: WebhookBody;
	readonly last_attempt_at: string | null;
	readonly created_at: string;
};

export type Contact = {
	readonly id: string;
	readonly email: string;
	readonly locale: string | null;
	readonly timezone: string | null;
	readonly created_at: string;
	readonly updated_at: string;
	readonly topics: readonly string[];
	readonly suppressed: boolean;
};

export type Usage = {
	readonly period: string;
	readonly period_start: string;
	readonly period_end: string;
	readonly accepted: number;
	readonly test: number;
	readonly quota: number | null;
	readonly remaining: number | null;
	readonly reset: number;
};

/** An id of a type: 26 characters of Crockford's base32 after its prefix. */
export function idShape(prefix: string): RegExp {
	return new RegExp(`^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`);
}

/** An id of a type that does not exist. */
export function unknownId(prefix: string): string {
	return `${prefix}_01hzzzzzzz0000000000000000`;
}

/** A send of the plain template with these fields changed or added. */
export function sendBody(workspace: Workspace, fields: object = {}): Record<string, unknown> {
	return {
		from: workspace.from,
		to: 'user@simulator.test',
		templateId: workspace.templates.plain,
		...fields,
	};
}

export function send<Body = Failure>(
	workspace: Workspace,
	fields: object = {},
	headers: Readonly<Record<string, string>> = {},
): Promise<Answer<Body>> {
	return workspace.live.post<Body>('/v1/messages', sendBody(workspace, fields), headers);
}

/** Sends a message that must be accepted; returns the id. */
export async function accepted(workspace: Workspace, fields: object = {}, api = workspace.live): Promise<string> {
	const {status, body, text} = await api.post<Accepted>('/v1/messages', sendBody(workspace, fields));
	if (status !== 202) {
		throw new Error(`Not accepted: ${status} ${text}`);
	}

	return body.id;
}

export async function readMessage(api: Api, id: string): Promise<Message> {
	return (await api.get<Message>(`/v1/messages/${id}`)).body;
}

/** The message once it has this status. */
export async function untilStatus(api: Api, id: string, status: string): Promise<Message> {
	return await waitFor(`${id} is ${status}`, async () => {
		const message = await readMessage(api, id);
		return message.status === status && message;
	}).catch(async error => {
		throw new Error(`${error.message}: ${JSON.stringify(await timeline(api, id))}`);
	});
}

export async function timeline(api: Api, id: string): Promise<readonly TimelineEvent[]> {
	return (await api.get<List<TimelineEvent>>(`/v1/messages/${id}/events`)).body.data;
}

/** The timeline once it has an event of this type. */
export async function untilEvent(api: Api, id: string, type: string): Promise<readonly TimelineEvent[]> {
	return await waitFor(`${id} has ${type}`, async () => {
		const events = await timeline(api, id);
		return events.some(event => event.type === type) && events;
	});
}

/** Every item of a list, page by page. */
export async function walk<Item>(api: Api, path: string): Promise<Item[]> {
	const items: Item[] = [];
	for (let cursor: string | null = ''; cursor !== null; ) {
		const more: string =
			cursor === '' ? '' : `${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`;
		const {status, text, body}: Answer<List<Item>> = await api.get<List<Item>>(path + more);
		if (status !== 200) {
			throw new Error(`${path}${more}: ${status} ${text}`);
		}

		items.push(...body.data);
		cursor = body.next_cursor;
	}

	return items;
}

export function fieldsOf({body}: Answer<Failure>): string[] {
	return body.error.violations?.map(({field}) => field).toSorted() ?? [];
}

export function codeOf({body}: Answer<Failure>): string {
	return body.error.code;
}

/** The bytes of the recipient's message once it is delivered. */
export async function rawMail({program}: Service, {id: workspace, live}: Workspace, id: string): Promise<string> {
	await untilStatus(live, id, 'delivered');
	return (await program.cliBytes('message', 'raw', id, '--workspace', workspace)).toString();
}

/** The one-click URL of a message, or only its token. */
export function unsubscribeUrl(mail: string): string {
	const [, url] = /^List-Unsubscribe:\s*<(http[^>]+)>/im.exec(mail.replaceAll(/\r\n[ \t]+/g, '')) ?? [];
	if (url === undefined) {
		throw new Error(`No List-Unsubscribe in ${mail.slice(0, 2000)}`);
	}

	return url;
}

/** Unsubscribes as a mailbox provider does for the recipient. */
export async function oneClick(url: string): Promise<Response> {
	return await fetch(url, {
		method: 'POST',
		body: 'List-Unsubscribe=One-Click',
		headers: {'content-type': 'application/x-www-form-urlencoded'},
	});
}

export async function addTopic(workspace: Workspace, code: string, name = code): Promise<Topic> {
	const {status, body, text} = await workspace.live.post<Topic>('/v1/unsubscribe-groups', {code, name});
	if (status !== 201) {
		throw new Error(`No topic: ${status} ${text}`);
	}

	return body;
}

export async function suppress(workspace: Workspace, recipient: string): Promise<Suppression> {
	const {status, body, text} = await workspace.live.post<Suppression>('/v1/suppressions', {recipient});
	if (status !== 201) {
		throw new Error(`Not suppressed: ${status} ${text}`);
	}

	return body;
}

/** The suppression entry of an address, if there is one. */
export async function entryOf({live}: Workspace, recipient: string): Promise<Suppression | undefined> {
	const {body} = await live.get<List<Suppression>>(`/v1/suppressions?recipient=${encodeURIComponent(recipient)}`);
	return body.data[0];
}

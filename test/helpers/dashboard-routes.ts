import type {CheckRunner} from '../../src/dashboard/health.ts';
import {pages} from '../../src/dashboard/pages.ts';
import type {DashboardParts} from '../../src/dashboard/parts.ts';
import type {Route} from '../../src/dashboard/route.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {openStore} from '../../src/store/store.ts';
import {insertReceivedMail} from './received-mail.ts';
import type {Service} from './service.ts';

/** The table without what its pages work with: nothing is asked of them. */
const anything: unknown = new Proxy(() => undefined, {
	get: (_, key) => (key === Symbol.toPrimitive ? () => '' : anything),
	apply: () => anything,
});
export const noParts = anything as DashboardParts;

/** Every route of the dashboard for those who are logged in. */
export const routes: readonly Route[] = pages(noParts, anything as CheckRunner);
export const named = ({method, path}: Route) => `${method} ${path}`;

/** The pattern of the path at which a route is served. */
export const servedAt = ({path, withoutWorkspace}: Route) => (withoutWorkspace ? path : `/w/:workspace${path}`);

/** Ids by the first segment of the paths that name them. */
export type Things = Readonly<Record<string, string>>;

/** A thing of the workspace `shop` for each path that names one, so that others can be shown to see nothing of it. */
export async function thingsOf({workspaces, program, store}: Service): Promise<Things> {
	const {live, from, templates, id: workspace} = workspaces.shop as NonNullable<(typeof workspaces)[string]>;
	const {body} = await live.post<{id: string}>('/v1/messages', {
		...{from, to: 'secret-recipient@dest.example', templateId: templates.plain, data: {text: 'x'}},
		attachments: ['a', 'b'].map(name => ({filename: `${name}.txt`, contentType: 'text/plain', content: 'YQ=='})),
	});
	const made = async (...command: string[]) =>
		(await program.cli<{id: string}>(...command, '--workspace', workspace)).id;
	await live.put('/v1/layouts/layout/1', {files: {'body.html': 'secret {{ content }}'}});
	await made('topic', 'create', '--code', 'secret-topic', '--name', 'Secret');
	return {
		messages: body.id,
		domains: await made('domain', 'add', 'secret.example'),
		templates: templates.plain ?? '',
		webhooks: await made('webhook', 'add', 'https://hooks.example/secret', '--event', 'delivered'),
		smarthosts: await made('smarthost', 'add', 'postmark'),
		inbound: await made('inbound', 'add', 'secret@in.secret.example'),
		received: await receivedIn(store, workspace),
		alerts: await made('alert', 'add', '--mail', 'secret@ops.example'),
		keys: await made('key', 'create', '--name', 'secret-key'),
		topics: 'secret-topic',
		layouts: 'layout',
		queue: 'dest.example',
		workspaces: workspace,
		suppressions: await made('suppression', 'add', 'secret-listed@dest.example'),
		contacts: await made('contact', 'show', 'secret-recipient@dest.example'),
		users: await made('user', 'add', 'secret@staff.example'),
		account: 'psk_00000000000000000000000000',
	};
}

/** A mail that the workspace received. */
export async function receivedIn(at: Service['store'], workspaceId: string): Promise<string> {
	const store = await openStore(at);
	try {
		return await insertReceivedMail(store, createIdSource(systemClock), workspaceId);
	} finally {
		await store.close();
	}
}

/** The path with the id of a thing, and that of a second one within it; null: it names none. */
export function pathOf({path}: Route, things: Things, within: Things = {}): string | null {
	if (!path.includes(':')) {
		return null;
	}
	const [, noun = ''] = path.split('/');
	const thing = things[noun];
	if (thing === undefined) {
		throw new Error(`${path} names a thing that this test has none of: add it to thingsOf`);
	}
	return path.replace(/:\w+/g, (_, at: number) => (at === path.indexOf(':') ? thing : (within[noun] ?? '1')));
}

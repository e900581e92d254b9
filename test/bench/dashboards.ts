import {join} from 'node:path';
import type {Bench} from '../../src/cli/bench/measures.ts';
import type {ActTools} from '../../src/mail/operator.ts';
import {Sessions} from '../../src/resources/users/sessions.ts';
import {openStore} from '../../src/store/store.ts';
import {newUser} from '../helpers/users.ts';

/** Of one session the dashboard lets no more pages follow. */
const pagesOfOne = 10;

/**
 * So many open lists of messages, of a tenth as many users: each hears of news as a browser does, and asks for the list
 * then. With SQLite: the users are added beside the daemon.
 */
export function openDashboards(pages: number, tools: ActTools): NonNullable<Bench['beside']> {
	return async ({url}, {dataDir, workspaceId}) => {
		const store = await openStore({file: join(dataDir, 'mailctl.db')});
		const sessions = new Sessions({store, ...tools});
		const cookies: string[] = [];
		for (let n = 0; n < Math.ceil(pages / pagesOfOne); n++) {
			const {user} = await newUser(store, tools, {email: `user-${n}@x.example`, role: 'viewer', workspaceId});
			const token = await sessions.start(user, {address: '127.0.0.1', agent: 'bench', by: 'link'});
			cookies.push(`mailctl=${token}`);
		}
		await store.close();
		const ending = new AbortController();
		let lists = 0;
		await Promise.all(
			Array.from({length: pages}, async (_, n) => {
				const headers = {cookie: cookies[Math.floor(n / pagesOfOne)] ?? ''};
				const stream = await fetch(`${url}/w/${workspaceId}/live`, {headers, signal: ending.signal});
				if (stream.status !== 200) {
					throw new Error(`/live answered ${stream.status}.`);
				}
				void follow(stream, async () => {
					const list = await fetch(`${url}/w/${workspaceId}/messages`, {
						headers: {...headers, 'hx-request': 'true'},
					});
					await list.arrayBuffer();
					lists += list.status === 200 ? 1 : 0;
				});
			}),
		);
		return () => {
			ending.abort();
			console.log(`${pages} dashboards asked for ${lists} lists`);
		};
	};
}

async function follow(stream: Response, onNews: () => Promise<void>): Promise<void> {
	try {
		for await (const chunk of stream.body ?? []) {
			if (Buffer.from(chunk).includes('event: mail')) {
				await onNews();
			}
		}
	} catch {
		// Aborted at the end.
	}
}

import {Readable} from 'node:stream';
import {type Html, html} from '../hosted/html.ts';
import {Seats} from '../kit/turns.ts';
import type {DashboardParts} from './parts.ts';
import type {Answer, Route, Visit} from './route.ts';
import {sharedMs} from './shared.ts';
import {readSignedIn} from './visitor.ts';

const streamPath = '/live';
const streamType = 'text/event-stream; charset=utf-8';
/** Of one session, at once. */
const maxStreams = 20;
/** Minimum time between two notices to an open page. Backs off while changes keep coming. */
const tellMs = {first: 3000, last: 12_000};
/** How often a stream checks its session. It also sends a line, because proxies end silent connections. */
const lookMs = 30_000;
const retrySeconds = 30;
/** The page stays as it is, and asks again every so often. */
const tooMany: Answer = {
	kind: 'content',
	status: 429,
	type: 'text/plain; charset=utf-8',
	body: `You have ${maxStreams} live pages open: close one first.\n`,
	headers: {'retry-after': String(retrySeconds)},
};
/** A comment, which browsers pass over. */
const silence = Buffer.from(':\n\n');

/**
 * A part of a page that is fetched again while it is looked at: its own page is asked for, and this part of it put in
 * its place. `path`: null where the part does not change by itself, as the older pages of a list. `when`: `mail` as
 * soon as something happens to a message of the workspace, else every so often.
 */
export function live(id: string, path: string | null, content: Html, when: 'mail' | `${number}s` = '5s'): Html {
	if (path === null) {
		return html`<div id="${id}">${content}</div>`;
	}
	// A try that failed is no event of the message: it is seen a little later.
	const trigger = when === 'mail' ? `mail from:body, every ${retrySeconds}s` : `every ${when}`;
	// A stream that was refused is asked for again; one that goes on, or was lost, is not.
	const events = html`<div id="${id}-events" hx-sse:connect="${streamPath}" hx-trigger="load, every ${retrySeconds}s"></div>`;
	const stream = when === 'mail' ? events : null;
	return html`${stream}<div id="${id}" hx-get="${path}" hx-trigger="${trigger}" hx-select="#${id}" hx-swap="outerMorph">${content}</div>`;
}

/** Notifies open pages that a message of their workspace changed. The pages then fetch what they show. */
export function livePages({feed, sessions, tools: {clock}}: DashboardParts): readonly Route[] {
	const seats = new Seats(maxStreams);

	/** Not those who were logged out, removed, or moved to another workspace. */
	async function maySee({request, workspace}: Visit): Promise<boolean> {
		const signedIn = await readSignedIn(sessions, request);
		return signedIn !== null && (signedIn.user.workspaceId ?? workspace.id) === workspace.id;
	}

	async function* notices(visit: Visit, looks: AsyncIterable<boolean>): AsyncGenerator<Buffer> {
		let [toldAt, lookedAt] = [Number.NEGATIVE_INFINITY, clock.monotonic()];
		// What happened after the page was made and before it follows is news too.
		let newsAt: number | null = lookedAt;
		let pause = tellMs.first;
		// The head of the answer goes out with the first of its body.
		yield silence;
		for await (const hasNews of looks) {
			const now = clock.monotonic();
			newsAt ??= hasNews ? now : null;
			// By then no page gets an answer from before the news.
			if (newsAt !== null && now - newsAt >= sharedMs && now - toldAt >= pause) {
				pause = now - toldAt < 2 * pause ? Math.min(2 * pause, tellMs.last) : tellMs.first;
				yield Buffer.from('event: mail\ndata: 1\n\n');
				[toldAt, newsAt] = [now, null];
			}
			if (now - lookedAt >= lookMs) {
				if (!(await maySee(visit))) {
					return;
				}
				yield silence;
				lookedAt = now;
			}
		}
	}

	return [
		{
			method: 'GET',
			path: streamPath,
			role: 'viewer',
			async answer(visit) {
				const {method, raw} = visit.request;
				// Nothing reads the stream then, and the event that frees its seat was emitted already.
				if (method === 'HEAD' || raw.socket.destroyed) {
					return {kind: 'content', type: streamType, body: ''};
				}
				const leave = seats.take(visit.signedIn.sessionId);
				if (leave === undefined) {
					return tooMany;
				}
				raw.socket.once('close', leave);
				const looks = await feed.news(visit.workspace.id);
				return {
					kind: 'content',
					type: streamType,
					body: Readable.from(notices(visit, looks), {objectMode: false}),
					// The connection ends with the stream: a stop does not wait for it. The last one is for nginx.
					headers: {connection: 'close', 'x-accel-buffering': 'no'},
				};
			},
		},
	];
}

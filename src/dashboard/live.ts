import {Readable} from 'node:stream';
import {type Html, html} from '../hosted/html.ts';
import {ConcurrencyLimit} from '../kit/turns.ts';
import type {DashboardParts} from './parts.ts';
import type {Answer, Route, Visit} from './route.ts';
import {sharedMs} from './shared.ts';
import {readSignedIn} from './visitor.ts';

const streamPath = '/live';
const streamType = 'text/event-stream; charset=utf-8';
/** The maximum number of concurrent streams of one session. */
const maxStreams = 20;
/** Minimum time between two notices to an open page. Backs off while changes continue. */
const noticeMs = {min: 3000, max: 12_000};
/** How often a stream checks its session. It also sends a line, because proxies close silent connections. */
const sessionCheckMs = 30_000;
const retrySeconds = 30;
/** The page stays as it is, and retries every 30 seconds. */
const tooMany: Answer = {
	kind: 'content',
	status: 429,
	type: 'text/plain; charset=utf-8',
	body: `You have ${maxStreams} live pages open: close one first.\n`,
	headers: {'retry-after': String(retrySeconds)},
};
/** A comment, which browsers ignore. */
const comment = Buffer.from(':\n\n');

/**
 * A part of a page that is refreshed while the page is open: its page is fetched again, and this part of it replaced.
 * `path` is `null` if the part does not change by itself, such as older pages of a list. `when` is `mail` to refresh it
 * when a message of the workspace changes, else the interval.
 */
export function live(id: string, path: string | null, content: Html, when: 'mail' | `${number}s` = '5s'): Html {
	if (path === null) {
		return html`<div id="${id}">${content}</div>`;
	}
	// A failed attempt is not an event of the message, so the interval shows it a little later.
	const trigger = when === 'mail' ? `mail from:body, every ${retrySeconds}s` : `every ${when}`;
	// A stream that was refused is requested again; one that is open, or was lost, is not.
	const events = html`<div id="${id}-events" hx-sse:connect="${streamPath}" hx-trigger="load, every ${retrySeconds}s"></div>`;
	const stream = when === 'mail' ? events : null;
	return html`${stream}<div id="${id}" hx-get="${path}" hx-trigger="${trigger}" hx-select="#${id}" hx-swap="outerMorph">${content}</div>`;
}

type StreamParts = Pick<DashboardParts, 'feed' | 'sessions' | 'tools'>;

/** Notifies open pages that a message of their workspace changed. The pages then refresh their parts. */
export function livePages(parts: StreamParts): readonly Route[] {
	const seats = new ConcurrencyLimit(maxStreams);

	async function answer(visit: Visit): Promise<Answer> {
		const {method, raw} = visit.request;
		// Nothing reads the stream then, and the event that releases its seat was emitted already.
		if (method === 'HEAD' || raw.socket.destroyed) {
			return {kind: 'content', type: streamType, body: ''};
		}
		const leave = seats.take(visit.signedIn.sessionId);
		if (leave === undefined) {
			return tooMany;
		}
		raw.socket.once('close', leave);
		const polls = await parts.feed.news(visit.workspace.id);
		return {
			kind: 'content',
			type: streamType,
			body: Readable.from(streamNotices(parts, visit, polls), {objectMode: false}),
			// The connection closes with the stream, so that a shutdown need not wait. The second header is for nginx.
			headers: {connection: 'close', 'x-accel-buffering': 'no'},
		};
	}

	return [{method: 'GET', path: streamPath, role: 'viewer', answer}];
}

/** Yields events until the user may no longer see the workspace. Each poll reports whether there is news. */
async function* streamNotices(
	{sessions, tools: {clock}}: StreamParts,
	visit: Visit,
	polls: AsyncIterable<boolean>,
): AsyncGenerator<Buffer> {
	let [noticedAt, checkedAt] = [Number.NEGATIVE_INFINITY, clock.monotonic()];
	// A change after the page was rendered but before this stream began is news too.
	let newsAt: number | null = checkedAt;
	let pause = noticeMs.min;
	// The head of the response is sent with the first chunk of its body.
	yield comment;
	for await (const hasNews of polls) {
		const now = clock.monotonic();
		newsAt ??= hasNews ? now : null;
		// After `sharedMs`, no page gets a shared result from before the news.
		if (newsAt !== null && now - newsAt >= sharedMs && now - noticedAt >= pause) {
			pause = now - noticedAt < 2 * pause ? Math.min(2 * pause, noticeMs.max) : noticeMs.min;
			yield Buffer.from('event: mail\ndata: 1\n\n');
			[noticedAt, newsAt] = [now, null];
		}
		if (now - checkedAt >= sessionCheckMs) {
			if (!(await maySee(sessions, visit))) {
				return;
			}
			yield comment;
			checkedAt = now;
		}
	}
}

/** Reports whether the user is still signed in and may see the workspace. */
async function maySee(sessions: DashboardParts['sessions'], {request, workspace}: Visit): Promise<boolean> {
	const signedIn = await readSignedIn(sessions, request);
	return signedIn !== null && (signedIn.user.workspaceId ?? workspace.id) === workspace.id;
}

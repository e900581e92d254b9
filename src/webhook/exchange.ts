import type {Client, Dispatcher} from 'undici';

export type Request = {
	readonly path: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: Uint8Array;
};

/** What came back: a status, or what kept it from coming. */
export type Answered =
	| {readonly ok: true; readonly status: number}
	| {readonly ok: false; readonly error: unknown /** The time was up. */; readonly late: boolean};

/** The answer is its status: what follows is read only so that the connection can serve again, and no further than this. */
const mostRead = 64 * 1024;
const readPatienceMs = 1000;

/**
 * Posts one request and waits for the status of the answer, whatever else comes before it (1xx) or after it. The limit is
 * one for all, not per gap. `reusable`: the connection may serve another request.
 */
export function exchange(
	client: Client,
	{path, headers, body}: Request,
	limitMs: number,
): Promise<Answered & {readonly reusable: boolean}> {
	return new Promise(resolve => {
		let status: number | null = null;
		let read = 0;
		let timer = setTimeout(() => finish({ok: false, error: null, late: true}, false), limitMs);

		function finish(answered: Answered, reusable: boolean): void {
			clearTimeout(timer);
			resolve({...answered, reusable});
		}

		const handler: Dispatcher.DispatchHandler = {
			onRequestStart: () => undefined,
			onResponseStart(_controller, code) {
				if (code >= 200) {
					const answered = {ok: true, status: code} as const;
					status = code;
					clearTimeout(timer);
					timer = setTimeout(() => finish(answered, false), Math.min(readPatienceMs, limitMs));
				}
			},
			onResponseData(_controller, chunk) {
				read += chunk.length;
				if (read > mostRead && status !== null) {
					finish({ok: true, status}, false);
				}
			},
			onResponseEnd() {
				if (status !== null) {
					finish({ok: true, status}, true);
				}
			},
			onResponseError(_controller, error) {
				finish(status === null ? {ok: false, error, late: false} : {ok: true, status}, false);
			},
		};
		client.dispatch(
			{path, method: 'POST', headers, body: Buffer.from(body.buffer, body.byteOffset, body.byteLength)},
			handler,
		);
	});
}

import type {ExecutionContext} from 'ava';

export type StreamMessage = {readonly id: string; readonly event: string; readonly data: Record<string, unknown>};

/**
 * A stream of `GET /v1/events`, read message by message; `end` resolves with what is left of it when the server has
 * ended it.
 */
export async function openStream(
	t: ExecutionContext,
	base: string,
	key: string,
	{query = '', headers = {}}: {query?: string; headers?: Record<string, string>} = {},
) {
	const control = new AbortController();
	t.teardown(() => control.abort());
	const response = await fetch(`${base}/v1/events${query}`, {
		headers: {authorization: `Bearer ${key}`, ...headers},
		signal: control.signal,
	});
	const reader = (response.body as ReadableStream<Uint8Array>).getReader();
	let text = '';

	async function readBlock(): Promise<string | null> {
		let end = text.indexOf('\n\n');
		for (; end === -1; end = text.indexOf('\n\n')) {
			const {done, value} = await reader.read();
			if (done) {
				return null;
			}
			text += Buffer.from(value).toString();
		}
		const block = text.slice(0, end);
		text = text.slice(end + 2);
		return block;
	}

	return {
		response,
		block: readBlock,
		/** The next message that has data; null: the stream ended. */
		async message(): Promise<StreamMessage | null> {
			for (let block = await readBlock(); block !== null; block = await readBlock()) {
				const fields = Object.fromEntries(block.split('\n').map(line => line.split(/: (.*)/s)));
				if (fields.data) {
					return {id: fields.id, event: fields.event, data: JSON.parse(fields.data)};
				}
			}
			return null;
		},
		close: () => control.abort(),
	};
}

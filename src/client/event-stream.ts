/** A server-sent event; `data` empty: it only says how far the stream has come. */
export type StreamMessage = {readonly id: string | null; readonly data: string};

/** Reads a stream of server-sent events (HTML Standard, "Server-sent events") piece by piece: the messages that a piece completes. */
export function createMessageReader(): (text: string) => StreamMessage[] {
	let rest = '';
	let id: string | null = null;
	let data: string[] = [];
	return text => {
		const lines = `${rest}${text}`.split('\n');
		rest = lines.pop() ?? '';
		const messages: StreamMessage[] = [];
		for (const line of lines.map(one => one.replace(/\r$/, ''))) {
			const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
			if (line === '') {
				if (id !== null || data.length > 0) {
					messages.push({id, data: data.join('\n')});
				}
				[id, data] = [null, []];
			} else if (name === 'id') {
				id = value;
			} else if (name === 'data') {
				data.push(value);
			}
		}
		return messages;
	};
}

/** The messages of an answer. It ends with the connection, and where nothing comes for so many milliseconds while somebody waits. */
export async function* messagesOf(body: ReadableStream<Uint8Array>, silenceMs: number): AsyncGenerator<StreamMessage> {
	const [reader, decoder, read] = [body.getReader(), new TextDecoder(), createMessageReader()];
	const end = () => reader.cancel().catch(() => undefined);
	try {
		for (;;) {
			const timer = setTimeout(end, silenceMs);
			const piece = await reader.read().finally(() => clearTimeout(timer));
			if (piece.done) {
				return;
			}
			yield* read(decoder.decode(piece.value, {stream: true}));
		}
	} catch {
		// The connection was lost, or the caller's signal ended it.
	} finally {
		await end();
	}
}

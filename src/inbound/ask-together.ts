/** Asks for one; undefined: there is none. */
export type Ask<Value> = (key: string) => Promise<Value | undefined>;

type Asked<Value> = {
	readonly key: string;
	readonly resolve: (value: Value | undefined) => void;
	readonly reject: (error: unknown) => void;
};

/** One query at a time: whoever asks meanwhile shares the next one. */
export function askTogether<Value>(
	askAll: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
): Ask<Value> {
	let waiting: Array<Asked<Value>> = [];
	let asking = false;

	async function run(): Promise<void> {
		asking = true;
		while (waiting.length > 0) {
			const all = waiting;
			waiting = [];
			try {
				const values = await askAll(all.map(({key}) => key));
				for (const {key, resolve} of all) {
					resolve(values.get(key));
				}
			} catch (error) {
				for (const {reject} of all) {
					reject(error);
				}
			}
		}
		asking = false;
	}

	return key =>
		new Promise((resolve, reject) => {
			waiting.push({key, resolve, reject});
			if (!asking) {
				void run();
			}
		});
}

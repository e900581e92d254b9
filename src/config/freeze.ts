/** Freezes plain objects and arrays all the way down; bytes stay as they are (JavaScript cannot freeze them). */
export function deepFreeze<T>(value: T): T {
	if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) {
		return value;
	}

	for (const inner of Object.values(value)) {
		deepFreeze(inner);
	}

	return Object.freeze(value);
}

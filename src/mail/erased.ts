/** Stands where the address of an erased person stood; mail for `.invalid` goes nowhere (RFC 2606 §2). */
export const erasedAddress = 'erased@erased.invalid';

const bit<8> a = 1;
/* open
const bit<8> b = 1;

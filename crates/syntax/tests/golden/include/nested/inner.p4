const bit<8> FROM_INNER = DOUBLE(4);
